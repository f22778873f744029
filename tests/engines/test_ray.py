"""A cluster of Ray with two nodes on this machine: one is lost while it embeds, and classifiers become its actors."""

import contextlib
import os
import threading
import time

import psutil
import pytest
from datatrove.executor.ray import RayPipelineExecutor
from transformers import pipeline

from ..conftest import SUBJECTS, make_text
from .conftest import DOCUMENTS, wait_until

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'ray[default]'")
from ray.cluster_utils import Cluster  # noqa: E402

# datatrove 0.10 asks for placement groups in the old way, in a thread that would end without an error message.
pytestmark = pytest.mark.filterwarnings("ignore:placement_group:DeprecationWarning")


@pytest.fixture
def cluster(engines_environment):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def is_at_work(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return "ray::RankWorker.run" in " ".join(process.cmdline())


@pytest.mark.parametrize("lost", ["workers", "node"])
def test_a_killed_worker_or_node_changes_no_byte(cluster, embedding, undisturbed, lost, record):
    """The process of a killed worker keeps running, and embeds beside the restarted one."""
    executor = RayPipelineExecutor(embedding.pipeline, tasks=embedding.tasks, logging_dir=embedding.logging_dir)
    run = threading.Thread(target=executor.run)
    run.start()
    wait_until(embedding.begun, "a task at work")
    if lost == "workers":
        workers = [one for one in psutil.Process().children(recursive=True) if is_at_work(one)]
        assert workers
        for worker in workers:
            worker.kill()
    else:
        cluster.remove_node(cluster.second, allow_graceful=False)
    assert len(embedding.finished()) < embedding.tasks
    run.join()
    assert embedding.finished() == set(range(embedding.tasks))
    assert embedding.files() == undisturbed
    record(f"ray, {lost} killed", ray=ray.__version__, documents=DOCUMENTS, equal=True)


class Classifier:
    def __init__(self, pipe):
        self.pipe = pipe

    def answer(self, texts):
        return self.pipe(texts)


def test_a_pipeline_is_pickled_into_actors_with_the_same_answers(cluster, record):
    texts = [make_text(number) for number in range(600)]
    pipe = pipeline("docsplit-knn")
    pipe.add_examples(texts[:200], [max(SUBJECTS, key=text.count) for text in texts[:200]])
    pipe.fit()
    expected = pipe(texts)
    given = ray.put(pipe)
    rates = {}
    for actors in (1, 2, 4):
        started = [ray.remote(Classifier).options(num_cpus=0.5).remote(given) for _ in range(actors)]
        ray.get([actor.answer.remote(texts[:8]) for actor in started])
        parts = [texts[number::actors] for number in range(actors)]
        start = time.perf_counter()
        answers = ray.get([actor.answer.remote(part) for actor, part in zip(started, parts, strict=True)])
        rates[actors] = len(texts) / (time.perf_counter() - start)
        for number, part in enumerate(answers):
            assert [answer["label"] for answer in part] == [answer["label"] for answer in expected[number::actors]]
            scores = [answer["score"] for answer in part]
            assert scores == pytest.approx([answer["score"] for answer in expected[number::actors]], abs=1e-6)
        for actor in started:
            ray.kill(actor)
    record(
        "ray, pipeline in actors",
        ray=ray.__version__,
        answers_equal=True,
        documents_per_second={str(actors): round(rate, 1) for actors, rate in rates.items()},
        load=round(os.getloadavg()[0], 1),
    )
