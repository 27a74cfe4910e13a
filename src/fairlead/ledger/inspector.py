"""JobInspector: looks up the processes of jobs, and judges each job by them."""

from collections.abc import Callable

from fairlead.job import LocalJob, LocalState, ProcessRef
from fairlead.ledger.judge import JobFacts, is_settled, judge
from fairlead.ledger.liveness import boot_id, is_alive, is_stopped


class JobInspector:
    """Judges jobs by the processes that live now; what it found for a record is kept while it holds."""

    def __init__(
        self,
        root: str,
        is_unstarted: Callable[[LocalJob], bool],
        read_again: Callable[[LocalJob], LocalJob | None],
    ) -> None:
        self._root = root
        self._is_unstarted = is_unstarted
        self._read_again = read_again
        self._verdicts: dict[int, tuple[LocalJob, JobFacts, LocalJob]] = {}

    def judged(self, jobs: list[LocalJob]) -> tuple[LocalJob, ...]:
        """Return the jobs as they are; one whose record is gone by now is left out."""
        boot = boot_id(self._root)
        alive: dict[tuple[int, int, str], bool] = {}
        before, self._verdicts = self._verdicts, {}
        verdicts = (job if is_settled(job) else self._verdict(job, boot, alive, before) for job in jobs)
        return tuple(job for job in verdicts if job is not None)

    def _verdict(
        self,
        job: LocalJob,
        boot: str,
        alive: dict[tuple[int, int, str], bool],
        before: dict[int, tuple[LocalJob, JobFacts, LocalJob]],
    ) -> LocalJob | None:
        runner, command = self._lives(job.runner, alive), self._lives(job.command, alive)
        started = runner or command or job.state is LocalState.QUEUED or not self._is_unstarted(job)
        facts = JobFacts(boot, runner, command, started, runner and not command and self._is_stopped(job))
        known = before.get(id(job))
        if known is None or known[0] is not job or known[1] != facts:
            verdict = judge(job, facts)
            if verdict.state.ended and (now := self._read_again(job)) != job:
                return _judged_again(now, job, facts)
            known = (job, facts, verdict)
        self._verdicts[id(job)] = known
        return known[2]

    def _is_stopped(self, job: LocalJob) -> bool:
        """Return whether the command of a running job has ended, and its runner cannot record that."""
        running = job.state is LocalState.RUNNING and job.command is not None
        return running and job.runner is not None and is_stopped(job.runner, self._root)

    def _lives(self, process: ProcessRef | None, alive: dict[tuple[int, int, str], bool]) -> bool:
        if process is None:
            return False
        key = (process.pid, process.start, process.boot)
        lives = alive.get(key)
        if lives is None:
            lives = alive[key] = is_alive(process, self._root)
        return lives


def _judged_again(now: LocalJob | None, job: LocalJob, facts: JobFacts) -> LocalJob | None:
    """Return a job whose record has changed since it was read.

    Its process may have written its end and then ended, between the reading of the record and the look at the
    process. What the record says after the end of its processes is certain.
    """
    if now is None or (now.runner, now.command) != (job.runner, job.command):
        return now  # archived, or started by now: the next reading looks at its processes
    return judge(now, facts)
