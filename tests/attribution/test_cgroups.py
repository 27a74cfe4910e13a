"""The pod and container of a process, from the cgroups that kubelets and runtimes make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.attribution.cgroups import NoPod, PodContainer, kubelet_root, owner

UID = "0d1b6f2a-3c4e-4f5a-8b9c-001122334455"
SLICE_UID = UID.replace("-", "_")
STATIC = "e5c7a1f2b3d4e5f60718293a4b5c6d7e"
OTHER = "ffffffff-3c4e-4f5a-8b9c-001122334455"
ID, NODE = "c0ffee00" * 8, "ab" * 32
INSIDE, IN_POD = PodContainer(UID, ID), PodContainer(UID, "")
POD_SLICE = f"kubepods-besteffort-pod{SLICE_UID}.slice"

PODS = {
    "v2, cgroupfs, guaranteed": (f"0::/kubepods/pod{UID}/{ID}", INSIDE),
    "v2, cgroupfs, burstable": (f"0::/kubepods/burstable/pod{UID}/{ID}", INSIDE),
    "v2, systemd, containerd": (
        f"0::/kubepods.slice/kubepods-besteffort.slice/{POD_SLICE}/cri-containerd-{ID}.scope",
        INSIDE,
    ),
    "v2, systemd, guaranteed": (
        f"0::/kubepods.slice/kubepods-pod{SLICE_UID}.slice/cri-containerd-{ID}.scope",
        INSIDE,
    ),
    "CRI-O": (f"0::/kubepods.slice/kubepods-besteffort.slice/{POD_SLICE}/crio-{ID}.scope/container", INSIDE),
    "CRI-O, cgroupfs": (f"0::/kubepods/besteffort/pod{UID}/crio-{ID}", INSIDE),
    "CRI-O's monitor": (f"0::/kubepods.slice/{POD_SLICE}/crio-conmon-{ID}.scope", IN_POD),
    "docker": (f"0::/kubepods.slice/kubepods-besteffort.slice/{POD_SLICE}/docker-{ID}.scope", INSIDE),
    "mixed drivers at the root": (f"0::/kubepods-pod{SLICE_UID}.slice:cri-containerd:{ID}", INSIDE),
    "a static pod": (f"0::/kubepods/burstable/pod{STATIC}/{ID}", PodContainer(STATIC, ID)),
    "nested cgroups": (f"0::/kubepods/burstable/pod{UID}/{ID}/init.scope/a/b", INSIDE),
    "of another reader, same QoS": (f"0::/../../pod{UID}/{ID}", INSIDE),
    "of another reader, other QoS": (f"0::/../../../burstable/pod{UID}/{ID}", INSIDE),
    "of another reader, guaranteed": (f"0::/../../../../kubepods/pod{UID}/{ID}", INSIDE),
    "of another reader, systemd": (f"0::/../../{POD_SLICE}/cri-containerd-{ID}.scope", INSIDE),
    "of another reader, systemd, other QoS": (
        f"0::/../../../kubepods-besteffort.slice/{POD_SLICE}/cri-containerd-{ID}.scope",
        INSIDE,
    ),
    "v1 and v2 together": (
        f"12:cpuset:/kubepods/besteffort/pod{UID}/{ID}\n3:cpu,cpuacct:/kubepods/besteffort/pod{UID}/{ID}/x\n"
        f"1:name=systemd:/kubepods/besteffort/pod{UID}/{ID}\n0::/system.slice/containerd.service\n",
        INSIDE,
    ),
    "a deleted cgroup": (f"0::/kubepods/pod{UID}/{ID} (deleted)", INSIDE),
    "a sandbox": (f"0::/kubepods/besteffort/pod{UID}/kata_overhead", IN_POD),
}
OUTSIDE = {
    "the root": "0::/",
    "a unit": "0::/system.slice/display-manager.service",
    "a session": "0::/user.slice/user-1000.slice/session-2.scope",
    "of another reader": "0::/../../../../system.slice/xorg.service",
    "a container without a pod": f"0::/system.slice/docker-{ID}.scope",
    "a user who plays a pod": f"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}/{ID}",
}
UNCLEAR = {
    "nothing": "",
    "no line": "garbage",
    "an unknown root": f"0::/elsewhere/kubepods/pod{UID}/{ID}",
    "an unknown parent": f"0::/kubepods/mine/pod{UID}/{ID}",
    "no parent": f"0::/pod{UID}/{ID}",
    "a uid in capitals": f"0::/kubepods/pod{UID.upper()}/{ID}",
    "a short uid": f"0::/kubepods/pod{UID[:-1]}/{ID}",
    "a slice without its parent": f"0::/mine/{POD_SLICE}/cri-containerd-{ID}.scope",
    "two pods": f"4:memory:/kubepods/pod{UID}/{ID}\n3:cpu:/kubepods/pod{OTHER}/{ID}",
    "a kubelet": "0::/kubelet.slice/kubelet.service",
    "a pod of a node that is a container": f"0::/system.slice/docker-{NODE}.scope/kubepods/pod{UID}/{ID}",
    "a container that plays a node": f"0::/../../../system.slice/docker-{NODE}.scope/kubepods/pod{UID}/{ID}",
}


@pytest.mark.parametrize("name", PODS)
def test_the_pod_and_container_of_a_process(name: str) -> None:
    text, expected = PODS[name]
    assert owner(text) == expected
    assert owner(f"{text.rstrip()}\n") == expected


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_process_outside_pods_is_foreign(name: str) -> None:
    assert owner(OUTSIDE[name]) is NoPod.FOREIGN


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_only_looks_like_a_pod_counts_for_nothing(name: str) -> None:
    assert owner(UNCLEAR[name]) is NoPod.UNCLEAR


@pytest.mark.parametrize(
    "nested",
    [
        f"kubepods/pod{OTHER}/{NODE}",
        f"../pod{OTHER}/{NODE}",
        f"kubepods-pod{OTHER.replace('-', '_')}.slice:cri-containerd:{NODE}",
        f"pod{OTHER}",
    ],
)
def test_a_pod_cannot_pass_for_another_by_the_names_of_its_own_cgroups(nested: str) -> None:
    assert owner(f"0::/kubepods/burstable/pod{UID}/{ID}/{nested}") == INSIDE
    assert owner(f"0::/../../{POD_SLICE}/cri-containerd-{ID}.scope/{nested}") == INSIDE


ROOTS = {
    f"4:memory:/edge/node-1/kubepods/burstable/pod{OTHER}/{NODE}": "edge/node-1",
    f"0::/edge.slice/kubepods.slice/kubepods-pod{SLICE_UID}.slice/x": "edge.slice",
    f"4:memory:/docker/{NODE}/kubelet/kubepods/besteffort/pod{OTHER}/{NODE}": f"docker/{NODE}/kubelet",
    f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE_UID}.slice/x": "kubelet.slice",
    f"0::/system.slice/containerd.service/kubepods-pod{SLICE_UID}.slice:cri-containerd:{NODE}": (
        "system.slice/containerd.service"
    ),
}
"""By the cgroups of the program's own pod, what is above the kubelet's."""


@pytest.mark.parametrize("own", ROOTS)
def test_a_root_of_the_kubelets_own_is_known_from_the_programs_own_pod(own: str) -> None:
    root = kubelet_root(own)
    assert "/".join(root) == ROOTS[own]
    for path in (
        f"kubepods/pod{UID}/{ID}",
        f"kubepods.slice/kubepods-besteffort.slice/{POD_SLICE}/crio-{ID}.scope",
        f"kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-{POD_SLICE}/cri-containerd-{ID}.scope",
        f"kubepods-burstable-pod{SLICE_UID}.slice:cri-containerd:{ID}",
    ):
        assert owner(f"0::/{ROOTS[own]}/{path}", root) == INSIDE
        assert owner(f"0::/{ROOTS[own]}/{path}") is NoPod.UNCLEAR
        assert owner(f"0::/{ROOTS[own]}/x/{path}", root) is NoPod.UNCLEAR
    assert kubelet_root("0::/") == kubelet_root("") == ()


@given(
    st.lists(
        st.sampled_from(["..", "kubepods", "burstable", f"pod{UID}", ID, "x:y", "a b", "é", "\0", ""]),
        max_size=8,
    ),
    st.text(max_size=20),
)
def test_no_text_raises_and_a_pod_is_always_a_uid(parts: list[str], tail: str) -> None:
    found = owner(f"0::/{'/'.join(parts)}{tail}")
    assert isinstance(found, NoPod) or found.pod == UID
