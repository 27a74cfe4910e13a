"""Every resource, label and annotation that says something about accelerators, named once.

Ours, and those of the projects that a pod may come from: gpushare, HAMi, KAI, Volcano, coscheduling.
"""

from typing import Final

DOMAIN: Final = "fairlead.dev"
"""The API group of our kinds, the name of the DRA driver and of the CDI vendor."""
PREFIX: Final = f"{DOMAIN}/"
"""What our labels, annotations, taints and extended resources begin with."""

GPU_MEM: Final = "fairlead.dev/gpu-mem"
"""MiB of one accelerator."""
GPU_MEM_GIB: Final = "fairlead.dev/gpu-mem-gib"
ALIYUN_MEM: Final = "aliyun.com/gpu-mem"
"""Of gpushare: GiB, or MiB by an option of its plugin."""
ALIYUN_COUNT: Final = "aliyun.com/gpu-count"
ALIYUN_GIB_AT_MOST: Final = 512
"""A larger number must be MiB: no accelerator has as many GiB."""
HAMI_MEM: Final = "nvidia.com/gpumem"
"""MiB of each accelerator."""
HAMI_PERCENT: Final = "nvidia.com/gpumem-percentage"
HAMI_CORES: Final = "nvidia.com/gpucores"
"""Percent of the compute of each accelerator."""
HAMI_PRIORITY: Final = "nvidia.com/priority"
"""Among the pods that share an accelerator, by HAMi's own library; it takes no room."""
SHARE: Final = "fairlead.dev/share"
"""Always 1: stands in a container for what annotations ask for, so that a claim can be handed over for it."""
WHOLE: Final = {
    "nvidia.com/gpu": "NVIDIA",
    "amd.com/gpu": "AMD",
    "gpu.intel.com/i915": "Intel",
    "gpu.intel.com/xe": "Intel",
}
"""Whole accelerators of a vendor; with a size of HAMi or of ours, shares of as many."""
SIZES: Final = (
    GPU_MEM,
    GPU_MEM_GIB,
    ALIYUN_MEM,
    HAMI_MEM,
    HAMI_PERCENT,
    HAMI_CORES,
    HAMI_PRIORITY,
    SHARE,
)
"""What a share is like; no model is called so."""

# Annotations of pods.
MODEL: Final = "fairlead.dev/model"
"""A model file, relative to the manifest: the place is chosen by what is predicted for it."""
SLO: Final = "fairlead.dev/slo-latency"
SHAPES: Final = "fairlead.dev/model-shapes"
PRECISION: Final = "fairlead.dev/precision"
TRAINING: Final = "fairlead.dev/training"
"""The pod trains the model that it names: `batch=64 optimizer=adam precision=amp samples=50000 epochs=10`."""
ANALYZE: Final = "fairlead.dev/analyze"
"""`auto`: the pod's model is looked for in what the pod mounts, analysed, and named by `MODEL`. As a
scheduling gate of the pod: no scheduler places the pod before that."""
MODELS: Final = "fairlead.dev/accelerators"
"""Catalog ids, any of which will do."""
NOT_MODELS: Final = "fairlead.dev/not-accelerators"
VENDORS: Final = "fairlead.dev/vendors"
COUNT: Final = "fairlead.dev/accelerator-count"
COMPUTE: Final = "fairlead.dev/gpu-compute"
"""A part of each accelerator's compute: `25%`."""
GANG: Final = "fairlead.dev/gang"
GANG_SIZE: Final = "fairlead.dev/gang-size"
UNIT: Final = "fairlead.dev/gpu-mem-unit"
"""`GiB` or `MiB`: what `aliyun.com/gpu-mem` of this pod counts."""
KAI_FRACTION: Final = "gpu-fraction"
KAI_MEMORY: Final = "gpu-memory"
KAI_DEVICES: Final = "gpu-fraction-num-devices"
HAMI_USE: Final = "nvidia.com/use-gputype"
HAMI_AVOID: Final = "nvidia.com/nouse-gputype"
COSCHEDULING: Final = "scheduling.x-k8s.io/pod-group"
"""A label; the PodGroup of that name says how many."""
VOLCANO: Final = "scheduling.k8s.io/group-name"

PLACEMENT: Final = "fairlead.dev/placement"
"""Of a bound pod: its shares of accelerators, written together with the node."""
MEMORY_LIMIT: Final = "fairlead.dev/memory-limit"
"""Of a bound pod: the bytes of each accelerator that its frameworks must stay inside; a plain integer."""
LIMITER: Final = "fairlead.dev/limiter"
"""Of a pod: `mps` holds it to its share of an NVIDIA GPU, `none` leaves it alone."""
LEADER_EPOCH: Final = "fairlead.dev/leader-epoch"
"""The fencing token: a condition of a waiting pod, an annotation of a claim. It carries the epoch."""
PREEMPTOR: Final = "fairlead.dev/preemptor"
"""An annotation of an Eviction that names the pod for which room is made, as `namespace/name`."""
FULL_DEVICE: Final = "fairlead.dev/full-device"
"""An annotation of an Eviction that names the accelerator whose memory is nearly full, as `node/device`."""
ELASTIC: Final = "fairlead.dev/elastic"
"""Of a pod: `true` says that it follows a new `MEMORY_LIMIT` while it runs."""
RIGHTSIZE: Final = "fairlead.dev/rightsize"
"""Of a pod: `auto` places it by the learned size of its workload instead of its request."""

# Annotations of the owners of pods.
RIGHTSIZE_PREVIOUS: Final = "fairlead.dev/rightsize-previous"
"""Of a Deployment or another owner: the sizes that `fairlead rightsize --apply` has replaced."""

# What the operator writes on the objects that it makes, and on the resources that own them.
APPLIED: Final = "fairlead.dev/applied"
"""The hash of the manifest that was applied."""
FINALIZER: Final = "fairlead.dev/operator"
"""Of a resource: the operator makes objects for it, and removes them before the resource is gone."""
RETAINED_FOR: Final = "fairlead.dev/retained-for"
"""A label of an object that outlives its resource, such as a claim with data: the plural and the name of the
resource, with a dot. It has no owner reference: no way of deleting the resource takes it along."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "fairlead"
"""The value of that label, by which the operator lists its objects: of others it sees nothing."""

# Annotations of the Lease by which replicas elect a leader.
LEADS_FOR: Final = "fairlead.dev/scheduler"
"""The `schedulerName` of the pods that its holder places."""
LEADER_ADDRESS: Final = "fairlead.dev/address"
"""Where its holder serves pages."""
LEADER_POD: Final = "fairlead.dev/pod"
"""The same as `namespace/name:port`, by which the API server finds it; empty where it is no pod."""
IN_FLIGHT: Final = "fairlead.dev/in-flight"
"""The objects that its holder may be writing to."""
RELEASED: Final = "fairlead.dev/released"
"""Of a Lease: the epoch of the leader that gave it up with all its writes finished."""
FORMATS: Final = "fairlead.dev/formats"
"""The formats that leaders have written, with versions: a replica that cannot read one does not lead."""

# Annotations of nodes, which their agents write, and the taint while their chart is uninstalled.
ALLOCATED: Final = "fairlead.dev/allocated"
"""Which containers and claims hold what: the kubelet's pod resources, as this node's agent read them."""
DEVICES: Final = "fairlead.dev/devices"
"""The node's accelerators, held or free."""
PUBLISHED: Final = "fairlead.dev/labels"
"""The labels which were published, so that the next agent knows its own."""
PLACEMENT_FORMAT: Final = "fairlead.dev/placement-format"
"""The newest format of placements that the agent reads; without it, the agent does not read placements."""
RETRACTING: Final = "fairlead.dev/retracting"
"""The taint that keeps new pods off nodes with our devices while the last holders are released."""
BY_USE: Final = "fairlead.dev/by-use"
"""Of a claim: the scheduler placed it by measured use, so that claims may sum to more than the accelerator
has. Of a node: its agent prepares such claims. `1` in both."""
SHARING_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
"""A label of NVIDIA's feature discovery on nodes: `mps`, `time-slicing` or `none`."""
ALIYUN_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
"""An annotation of gpushare's on a running pod: the accelerator that it is on."""

# What the objects of a Pipeline carry.
PIPELINE: Final = "fairlead.dev/pipeline"
"""A label: the name of the Pipeline."""
PIPELINE_HOST: Final = "fairlead.dev/pipeline-host"
"""A label of a pod and of its Secret: the name of the host; `local` is the coordinator."""
PIPELINE_SLOT: Final = "fairlead.dev/pipeline-slot"
"""A label of the pod of a host: which of its two slots it is in, `a` or `b`."""
PIPELINE_FILE: Final = "fairlead.dev/pipeline-file"
"""An annotation of a coordinator's pod: the digest of its file. A change refreshes the volume at once."""
PIPELINE_FILES: Final = "fairlead.dev/pipeline-files"
"""A label of the ConfigMap with a user's code: the name of the Pipeline."""
SPEC_HASH: Final = "fairlead.dev/spec-hash"
"""An annotation of a pod: the digest of what it was made from."""
RENEW_AFTER: Final = "fairlead.dev/renew-after"
"""An annotation of a Secret: when its certificate is issued again."""
ISSUED_FOR: Final = "fairlead.dev/issued-for"
"""An annotation of a Secret: the digest of its authority and of the names in its certificate."""

# What the objects of an Augmentation carry.
AUGMENTATION: Final = "fairlead.dev/augmentation"
"""A label: the name of the Augmentation."""
AUGMENTATION_PART: Final = "fairlead.dev/augmentation-part"
"""A label of a pod: `store` or `application`; of a claim: `data` or `fast`."""
AUGMENTATION_STAGE: Final = "fairlead.dev/augmentation-stage"
"""Of a claim to which data moves: `target` while it is copied, `served` once it is the one that counts."""
AUGMENTATION_SETTINGS: Final = "fairlead.dev/augmentation-settings"
"""An annotation of a store's pod: the digest of its settings. A change refreshes the volumes at once."""
ROTATION: Final = "fairlead.dev/rotation"
"""An annotation of a Secret: the rotation for which its token was made."""
PREVIOUS_UNTIL: Final = "fairlead.dev/previous-until"
"""An annotation of a Secret: until when the token before the present one is accepted."""

# Labels of ModelProfiles.
SETUP: Final = "fairlead.dev/setup"
DEVICE: Final = "fairlead.dev/device"
DIGEST: Final = "fairlead.dev/digest"
"""Of a model's work; as an annotation of a slice, of what the slice was made from."""
