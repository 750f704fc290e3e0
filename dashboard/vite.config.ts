import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  // Relative, so that the same files serve below any path prefix: the server writes <base href>.
  base: "./",
  plugins: [react()],
  build: {
    outDir: process.env.IRIS_FED_PAGE_DIR ?? "../iris_fed/web/page",
    emptyOutDir: true,
    target: "es2022",
    // Nothing inlined: the page's policy allows no data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1024,
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(
      ["/iris.cluster.ControllerService", "/irisfed.v1.ClusterService", "/session"].map((path) => [
        path,
        process.env.IRIS_FED_CONTROLLER ?? "http://127.0.0.1:8478",
      ]),
    ),
  },
});
