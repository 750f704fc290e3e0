import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Button, Dialog, DialogTrigger, Heading, Modal, ModalOverlay } from "react-aria-components";
import { controller } from "../../api/clients";
import { failureText } from "../../api/failure";
import { rootOf } from "../../text/paths";

export function CancelJob({ jobId }: { jobId: string }) {
  const client = useQueryClient();
  const cancel = useMutation({
    mutationFn: () => controller.terminateJob({ jobId }),
    onSettled: () => client.invalidateQueries({ queryKey: ["job", rootOf(jobId)] }),
  });
  if (cancel.isSuccess) return <span className="muted">Cancel was asked for</span>;
  return (
    <DialogTrigger>
      <Button className="danger">Cancel job</Button>
      <ModalOverlay className="veil" isDismissable>
        <Modal className="modal">
          <Dialog role="alertdialog">
            {({ close }) => (
              <>
                <Heading slot="title">Cancel this job?</Heading>
                <p>
                  <b>{jobId}</b> and its children end; what its tasks have not written is lost. This cannot be
                  taken back.
                </p>
                {cancel.error && (
                  <p className="reason-bad" role="alert">
                    {failureText(cancel.error)}
                  </p>
                )}
                <p className="modal-buttons">
                  <Button className="plain" onPress={close} autoFocus>
                    Let it run
                  </Button>
                  <Button className="danger" isDisabled={cancel.isPending} onPress={() => cancel.mutate()}>
                    {cancel.isPending ? "Cancelling …" : "Cancel it"}
                  </Button>
                </p>
              </>
            )}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}
