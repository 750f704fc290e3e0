// The two services, spoken to in the protocol that the controller's other clients speak.
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { ControllerService } from "../gen/iris_fed/rpc/gen/cluster/controller_pb";
import { ClusterService } from "../gen/iris_fed/rpc/gen/irisfed/cluster_pb";

/** Where the page lives, with a closing slash: the server writes it as <base href>. */
export const basePath = new URL(document.baseURI).pathname;

export const CALL_TIMEOUT_MS = 15_000;

const transport = createConnectTransport({
  baseUrl: basePath.replace(/\/$/, ""),
  useBinaryFormat: true,
  defaultTimeoutMs: CALL_TIMEOUT_MS,
});

export const controller = createClient(ControllerService, transport);
export const cluster = createClient(ClusterService, transport);
