import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createBrowserRouter, RouterProvider } from "react-router";
import { basePath } from "./api/clients";
import { isPassing } from "./api/failure";
import { BackendsPage } from "./pages/BackendsPage";
import { JobPage } from "./pages/JobPage";
import { JobsPage } from "./pages/JobsPage";
import { CrashPage, NoSuchPage } from "./pages/NoSuchPage";
import { PeersPage } from "./pages/PeersPage";
import { UsersPage } from "./pages/UsersPage";
import { Door } from "./parts/Door";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/jobs.css";
import "./styles/job.css";
import "./styles/log.css";

const RETRIES = 2;
const FRESH_MS = 30_000;

const basename = basePath.replace(/\/$/, "");

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // News says what is stale; this is for what is shown again later.
      staleTime: FRESH_MS,
      refetchOnWindowFocus: false,
      retry: (count, error) => count < RETRIES && isPassing(error),
    },
  },
});

const router = createBrowserRouter(
  [
    {
      element: <Door />,
      errorElement: <CrashPage />,
      children: [
        { path: "/", element: <JobsPage /> },
        { path: "/jobs", element: <JobsPage /> },
        { path: "/jobs/*", element: <JobPage /> },
        { path: "/peers", element: <PeersPage /> },
        { path: "/backends", element: <BackendsPage /> },
        { path: "/users", element: <UsersPage /> },
        { path: "*", element: <NoSuchPage /> },
      ],
    },
  ],
  { basename: basename || "/" },
);

const page = document.getElementById("page");
// Asked for without the prefix under which it lives: everything in it would point elsewhere.
if (!`${location.pathname}/`.startsWith(basePath)) location.replace(basePath);
else if (page) {
  createRoot(page).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
