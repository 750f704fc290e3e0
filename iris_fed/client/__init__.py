"""The SDK: what the command line does, for programs.

    async with Client.from_context() as client:
        job_id = await client.submit(command_job(["python", "train.py"], gpu=("h100", 8)))
        status = await client.wait(job_id)

Answers are the wire's own messages (`iris.cluster`, `iris.job`, `irisfed.v1`); errors are the tree
of `iris_fed.errors`.
"""

from iris_fed.client.contexts import Target, find_target
from iris_fed.client.fetch import Fetched
from iris_fed.client.fetch_tasks import FetchedTasks
from iris_fed.client.follow import Replaced
from iris_fed.client.request import command_job
from iris_fed.client.sdk import Client

__all__ = ["Client", "Fetched", "FetchedTasks", "Replaced", "Target", "command_job", "find_target"]
