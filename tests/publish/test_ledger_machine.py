"""Whatever happens on a node, in whatever order: nothing is allocated twice, lost or leaked.

A kubelet with late pod resources, pods that start and end, claims, accelerators that fail, vanish and come
back, and an agent that restarts.
"""

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from fairlead.inventory import Accelerator, Inventory, State
from fairlead.offer import Form, Holder, Holding
from fairlead.publish.kubelet_holdings import Row
from fairlead.publish.ledger import (
    GRACE,
    UNNAMED,
    Ledger,
    Refusal,
    add_claim,
    admit,
    admit_all,
    kubelet_holdings,
    observe,
    overlaps,
    release_claim,
)
from fairlead.publish.offers import OfferPlan, offers, parse_units, prefer
from fairlead.publish.spans import minus, union
from fairlead.publish.tally import tally_by_accelerator
from tests.accelerators import accelerator, node

HARDWARE = node(
    accelerator("pci:0000:01:00.0", mebibytes=8, model="gpu"),
    accelerator("pci:0000:02:00.0", mebibytes=5, model="gpu"),
    accelerator("usb:1-1", model="stick"),
)
NAMES = [acc.id for acc in HARDWARE.accelerators]
LAGS = st.sampled_from([0.0, 0.2, GRACE / 2])
FOREVER = float("-inf")


@dataclass(frozen=True)
class Pod:
    """A pod of the kubelet: what it holds, and what else is reserved for it."""

    resource: str
    ids: tuple[str, ...]
    kept: frozenset[str]
    shown_from: float


class Node(RuleBasedStateMachine):
    """A node on which everything happens."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.state = dict.fromkeys(NAMES, State.HEALTHY)
        self.gone: set[str] = set()
        self.pods: dict[str, Pod] = {}
        self.claims: dict[Holder, Holding] = {}
        self.ledger = Ledger()
        self.rows: list[Row] = []
        self.look: tuple[float, list[Row]] | None = None
        self.listed: dict[str, list[str]] = {}
        self.made = 0
        self.send_offers()

    @property
    def inventory(self) -> Inventory:
        return Inventory(
            HARDWARE.machine,
            tuple(self._acc(acc) for acc in HARDWARE.accelerators if acc.id not in self.gone),
        )

    def _acc(self, acc: Accelerator) -> Accelerator:
        return replace(acc, state=self.state[acc.id])

    def _pod_resources(self) -> list[Row]:
        """The kubelet's pod resources now; a new allocation may not be listed yet."""
        return [
            ("default", name, "main", pod.resource, pod.ids)
            for name, pod in self.pods.items()
            if pod.shown_from <= self.now
        ]

    def _truth(self) -> list[Holding]:
        rows: list[Row] = [
            ("default", name, "main", pod.resource, pod.ids) for name, pod in self.pods.items()
        ]
        return [*kubelet_holdings(rows, HARDWARE).holdings, *self.claims.values()]

    def _read(self, rows: list[Row], began: float) -> None:
        self.rows = rows
        self.ledger = observe(self.ledger, kubelet_holdings(rows, self.inventory).holdings, began)

    @rule()
    def send_offers(self) -> None:
        """Send the kubelet the current offers."""
        found = offers(self.inventory, self.ledger, OfferPlan())
        self.listed = {
            offer.resource: [unit for block in offer.blocks if block.healthy for unit in block.ids()]
            for offer in found
        }

    @rule(seconds=st.sampled_from([0.1, 1.0, GRACE, 2 * GRACE]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    @rule(size=st.integers(1, 6), lag=LAGS, scattered=st.booleans())
    def start_share(self, size: int, lag: float, scattered: bool) -> None:
        """Start a pod with a share; the kubelet may ignore the preferred units."""
        self._start("fairlead.dev/gpu-mem", size, lag, scattered)

    @rule(
        resource=st.sampled_from(["fairlead.dev/gpu", "fairlead.dev/stick"]), size=st.integers(1, 2), lag=LAGS
    )
    def start_whole(self, resource: str, size: int, lag: float) -> None:
        """Start a pod with whole accelerators."""
        self._start(resource, size, lag, scattered=False)

    def _start(self, resource: str, size: int, lag: float, scattered: bool) -> None:
        """Let the kubelet start a pod, with units that it counts as free."""
        taken = {unit for pod in self.pods.values() if pod.resource == resource for unit in pod.kept}
        available = [unit for unit in self.listed.get(resource, []) if unit not in taken]
        offer = next(
            (each for each in offers(self.inventory, (), OfferPlan()) if each.resource == resource), None
        )
        chosen = prefer(offer, available, [], size) if offer and not scattered else []
        chosen = chosen or available[-size:]
        if len(chosen) == size:
            self._allocate(f"pod-{self.made}", resource, tuple(chosen), frozenset(chosen), lag)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), size=st.integers(1, 3))
    def continue_with_main(self, data: st.DataObject, size: int) -> None:
        """Let the main container of a pod take over units of its init container."""
        name = data.draw(st.sampled_from(sorted(self.pods)))
        pod = self.pods[name]
        self._allocate(name, pod.resource, tuple(sorted(pod.kept))[:size], pod.kept, 0.0)

    def _allocate(
        self, name: str, resource: str, ids: tuple[str, ...], kept: frozenset[str], lag: float
    ) -> None:
        parts = parse_units(ids, self.inventory)
        if isinstance(parts, Refusal):
            return
        answer = admit_all(self.ledger, self.inventory, [part.holding(UNNAMED) for part in parts], self.now)
        if isinstance(answer, Refusal):
            return
        assert all(self.state[part.accelerator].allocatable for part in parts)
        self.ledger = answer
        self.pods[name] = Pod(resource, ids, kept, self.now + lag)
        self.made += 1
        self.now += 0.01

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """End a pod: the kubelet may allocate its units to the next one at once."""
        del self.pods[data.draw(st.sampled_from(sorted(self.pods)))]

    @rule(acc=st.sampled_from(NAMES), amount=st.integers(0, 8), name=st.sampled_from("abc"))
    def prepare(self, acc: str, amount: int, name: str) -> None:
        """Prepare a claim, also one that is prepared already."""
        holder = Holder("default", name)
        if holder in self.claims and self.claims[holder].accelerator != acc:
            return
        answer = admit(self.ledger, self.inventory, Holding(acc, Form.CLAIM, holder, amount), self.now)
        if isinstance(answer, Ledger):
            self.ledger = answer
            self.claims[holder] = Holding(acc, Form.CLAIM, holder, amount)

    @rule(name=st.sampled_from("abcd"))
    def unprepare(self, name: str) -> None:
        """Release a claim, also one that never existed."""
        self.ledger = release_claim(self.ledger, Holder("default", name))
        self.claims.pop(Holder("default", name), None)

    @rule()
    def begin_read(self) -> None:
        """Start a read of pod resources; the answer may be processed much later."""
        self.look = (self.now, self._pod_resources())
        self.now += 0.01

    @precondition(lambda self: self.look is not None)
    @rule()
    def end_read(self) -> None:
        """Process the answer."""
        assert self.look is not None
        began, rows = self.look
        self.look = None
        self._read(rows, began)

    @rule(acc=st.sampled_from(NAMES), state=st.sampled_from([State.USABLE, State.PRESENT]))
    def make_unhealthy(self, acc: str, state: State) -> None:
        """Make an accelerator unhealthy."""
        self.state[acc] = state

    @rule(acc=st.sampled_from(NAMES))
    def vanish(self, acc: str) -> None:
        """Remove an accelerator: the same rows now have another meaning."""
        self.gone |= {acc}
        self._read(self.rows, FOREVER)

    @precondition(lambda self: self.gone or set(self.state.values()) != {State.HEALTHY})
    @rule()
    def come_back(self) -> None:
        """Restore every accelerator."""
        self.gone, self.state = set(), dict.fromkeys(NAMES, State.HEALTHY)
        self._read(self.rows, FOREVER)
        self.send_offers()

    @rule()
    def restart(self) -> None:
        """Restart the agent: it has its claims, and reads pod resources before it does anything."""
        self.now += GRACE
        self.look = None
        self.ledger = Ledger()
        for claim in self.claims.values():
            self.ledger = add_claim(self.ledger, claim)
        self._read(self._pod_resources(), self.now)
        self.send_offers()

    @invariant()
    def nothing_is_allocated_twice(self) -> None:
        """Check what pods and claims really hold, on all hardware."""
        assert overlaps(self._truth(), HARDWARE) == []

    @invariant()
    def the_ledger_is_sound(self) -> None:
        """Check the ledger for overlaps."""
        assert overlaps(self.ledger, self.inventory) == []

    @invariant()
    def tallies_equal_the_sums_of_the_holdings(self) -> None:
        """Check that the incremental tallies equal the sums of the holdings."""
        assert self.ledger.tallies == tally_by_accelerator(self.ledger.holdings)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        """Check that the ledger has everything that is held of existing accelerators."""
        here = {acc.id for acc in self.inventory.accelerators}
        known = self.ledger.holdings
        for holding in self._truth():
            if holding.accelerator in here and holding.form is not Form.CLAIM:
                same = [
                    each
                    for each in known
                    if (each.accelerator, each.form) == (holding.accelerator, holding.form)
                ]
                assert same
                assert not minus(holding.units, union(span for each in same for span in each.units))
            elif holding.form is Form.CLAIM:
                assert holding in known

    def teardown(self) -> None:
        """End all pods and claims; the ledger must be empty."""
        self.gone, self.pods, self.state = set(), {}, dict.fromkeys(NAMES, State.HEALTHY)
        for holder in list(self.claims):
            self.unprepare(holder.name)
        for _ in range(2):
            self.now += 2 * GRACE
            self._read(self._pod_resources(), self.now)
        assert self.ledger.holdings == ()
        self.send_offers()
        assert sum(map(len, self.listed.values())) == 3 + 13


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=100, stateful_step_count=60)
