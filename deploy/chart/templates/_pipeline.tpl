{{/*
The schema of a Pipeline's spec: stages and edges have the keys of a pipeline's file. Every list and string is bounded, so that
the rules stay within the API server's cost limits. What rules cannot say, such as cycles, the operator says in a condition.
*/}}
{{- define "fairlead.pipeline.spec" -}}
type: object
description: Stages that frames stream through, and the hosts that they are on.
required: [stages]
x-kubernetes-validations:
  - rule: self.stages.exists(s, has(s.source)) && self.stages.exists(s, has(s.sink))
    message: "a pipeline needs a stage with source and a stage with sink"
  - rule: "!has(self.edges) || self.edges.all(e, self.stages.exists(s, s.name == e.from) && self.stages.exists(s, s.name == e.to))"
    message: "from and to of an edge must be names of stages"
  - rule: "!has(self.edges) || self.edges.all(e, !self.stages.exists(s, has(s.source) && s.name == e.to))"
    message: "a source has no input: remove the edge that leads to it"
  - rule: "!has(self.edges) || self.edges.all(e, !self.stages.exists(s, has(s.sink) && s.name == e.from))"
    message: "a sink has no output: remove the edge that begins at it"
  - rule: has(self.edges) || has(self.stages[0].source) && has(self.stages[size(self.stages) - 1].sink)
    message: "without edges the stages are a chain: the first is a source, the last a sink"
  - rule: >-
      self.stages.all(s, !has(s.host) || s.host == 'local'
      || has(self.hosts) && self.hosts.exists(h, h.name == s.host))
    message: "host of a stage must be the name of one of hosts, or local"
  - rule: "!has(self.plan) || has(self.hosts) && size(self.hosts) > 0"
    message: "a plan chooses among hosts: add hosts, or remove plan"
properties:
  stages:
    type: array
    description: What is done with frames. Without edges the stages are a chain in their order.
    minItems: 2
    maxItems: 64
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      {{- include "fairlead.pipeline.stage" . | nindent 6 }}
  edges:
    type: array
    description: Which stage's frames go to which, and what happens when the second one is slower.
    minItems: 1
    maxItems: 128
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [from, to]
    items:
      {{- include "fairlead.pipeline.edge" . | nindent 6 }}
  fuse: {type: boolean, description: 'Neighbours share a process where nothing can queue between them; default true.'}
  hosts:
    type: array
    description: Hosts that stages name, and that a plan chooses from. Each host with a stage becomes one pod.
    maxItems: 32
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      x-kubernetes-validations:
        - rule: self.name != 'local'
          message: "local is the coordinator's pod, which spec.local describes"
      properties:
        name: {type: string, maxLength: 20, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$', description: The name that stages state as host; also its DNS name.}
        {{- include "fairlead.pipeline.group" . | nindent 8 }}
  local:
    type: object
    description: The coordinator's pod. It runs the sources and sinks that state no host, and without spec.plan every stage that states none.
    properties:
      {{- include "fairlead.pipeline.group" . | nindent 6 }}
  image: {type: string, minLength: 1, maxLength: 512, description: 'The image of every pod, with fairlead and the code of the stages in it; default: that of the operator''s release.'}
  imagePullPolicy: {type: string, enum: [Always, IfNotPresent, Never], description: When the image is pulled.}
  imagePullSecrets:
    type: array
    description: Secrets of this namespace for the registry.
    maxItems: 8
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {{ include "fairlead.pipeline.name" "The name of a Secret of this namespace." }}
  schedulerName: {type: string, minLength: 1, maxLength: 253, default: fairlead, description: 'The scheduler of the pods. Every other than default-scheduler places them as a gang.'}
  files:
    type: object
    description: Code and small files of the stages, read-only in every pod; relative paths begin there.
    required: [configMap]
    properties:
      configMap: {{ include "fairlead.pipeline.name" "The name of a ConfigMap of this namespace." }}
      items:
        type: array
        description: 'Where each key is in the folder; default: the key is the name of the file.'
        maxItems: 256
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [key]
        items:
          type: object
          required: [key, path]
          x-kubernetes-validations:
            - rule: "!self.path.startsWith('/') && !self.path.split('/').exists(p, p == '..') && self.path != 'pipeline.yaml'"
              message: "path is relative, without '..', and not pipeline.yaml, which is the file of the run"
          properties:
            key: {type: string, minLength: 1, maxLength: 253, pattern: '^[-._a-zA-Z0-9]+$'}
            path: {type: string, minLength: 1, maxLength: 512}
  stateClaim: {{ include "fairlead.pipeline.name" "A PersistentVolumeClaim of this namespace for the progress of the run; without it, a new coordinator's pod begins again." }}
  plan:
    {{- include "fairlead.pipeline.plan" . | nindent 4 }}
  update:
    type: object
    description: What follows a change that the run carries out while it goes on.
    x-kubernetes-validations:
      - rule: "!has(self.canary) || !has(self.rollback) || self.rollback"
        message: "a canary that is worse is rolled back: rollback must not be false"
    properties:
      canary:
        type: object
        description: 'A new version takes a share of the frames first, beside the old one, where its stages have several replicas; it is compared, and then all frames follow, or it is rolled back.'
        required: [percent]
        properties:
          percent: {type: integer, minimum: 1, maximum: 50, description: 'The share of the frames, at most.'}
          duration: {type: string, maxLength: 16, pattern: '^[0-9]+(\.[0-9]+)?(s|m|h)$', description: 'How long both versions are compared; default 1m.'}
      observe: {type: string, maxLength: 16, pattern: '^[0-9]+(\.[0-9]+)?(ms|s|m|h)$', description: 'How long the run is compared with before, and the last pods are kept; default 30s, 0s: not at all.'}
      rollback: {type: boolean, description: 'False: the run does not go back where it became worse; default true.'}
  suspend: {type: boolean, description: 'True: the run ends once the frames on their way are done, and no pod runs.'}
{{- end }}

{{/* The fields of the file that `fairlead pipeline profile --out` writes, and how a plan is made from it. */}}
{{- define "fairlead.pipeline.plan" -}}
type: object
description: The operator chooses the host of each stage that states none, and chooses again when a node is lost or comes back. Sources and sinks stay in the coordinator's pod unless they state a host.
properties:
  objective: {type: string, enum: [throughput, latency], default: throughput, description: 'What the plan has the smallest value of: throughput, the period; latency, the time of one frame.'}
  maxLatency: {type: string, maxLength: 32, pattern: '^[0-9]+([.][0-9]+)?(ms|s|m|h)$', description: 'The largest latency of one frame that is allowed, such as 200ms.'}
  profile:
    type: object
    description: 'What each stage costs on each machine, and what links carry: the file that `fairlead pipeline profile FILE --out PROFILE` writes. `fairlead pipeline deploy FILE --profile PROFILE` stores it.'
    x-kubernetes-map-type: atomic
    required: [version, pipeline, machines, links, stages, edges, notes]
    properties:
      version: {type: integer, minimum: 1, description: The version of the format.}
      pipeline: {type: string, maxLength: 253, description: The pipeline that was profiled.}
      machines:
        type: array
        description: Where stages were measured, or predicted. A host has the times of the machine of its name, else those of a machine of its class.
        maxItems: 64
        items:
          type: object
          required: [name, cores, memory_bytes, machine_class, basis]
          properties:
            name: {type: string, maxLength: 63, description: 'The name of a host, or of a class; local: where the profile was made.'}
            cores: {type: integer, minimum: 0, description: Its cores.}
            memory_bytes: {type: integer, format: int64, minimum: 0, description: Its memory.}
            machine_class: {type: string, maxLength: 63, description: Its device in the catalog.}
            basis: {type: string, enum: [measured, predicted], description: Where its times come from.}
      links:
        type: array
        description: What a link in one direction carries.
        maxItems: 1024
        items:
          type: object
          required: [source, target, bytes_per_s, delay_s]
          properties:
            source: {type: string, maxLength: 63, description: The machine that sends.}
            target: {type: string, maxLength: 63, description: The machine that receives.}
            bytes_per_s: {type: number, minimum: 0, exclusiveMinimum: true, description: Its rate.}
            delay_s: {type: number, minimum: 0, description: How long a frame is on its way beside its transfer.}
      stages:
        type: array
        description: What each stage costs. Sinks are not profiled.
        maxItems: 64
        items:
          type: object
          required: [name, rate, costs, unknown]
          properties:
            name: {type: string, maxLength: 63, description: The name of the stage.}
            rate: {type: number, minimum: 0, description: Values that reach it for each frame of the source.}
            costs:
              type: object
              description: 'By machine: what one value takes.'
              maxProperties: 64
              additionalProperties:
                type: object
                required: [seconds, p90, memory_bytes]
                properties:
                  seconds: {type: number, minimum: 0, description: The mean time.}
                  p10: {type: number, minimum: 0, nullable: true, description: The 10th percentile of a measurement.}
                  p90: {type: number, minimum: 0, description: The 90th percentile.}
                  memory_bytes: {type: integer, format: int64, minimum: 0, description: What its process holds.}
                  frames: {type: integer, minimum: 0, default: 0, description: How many were measured.}
                  basis: {type: string, enum: [measured, predicted], default: measured, description: Where the time comes from.}
                  confidence: {type: string, maxLength: 63, default: "", description: Of a prediction.}
            unknown:
              type: object
              description: 'By machine: why there is no cost.'
              maxProperties: 64
              additionalProperties: {type: string, maxLength: 1024}
      edges:
        type: array
        description: What travels on each edge.
        maxItems: 128
        items:
          type: object
          required: [source, target, bytes, rate]
          properties:
            source: {type: string, maxLength: 63, description: The stage that makes the frames.}
            target: {type: string, maxLength: 63, description: The stage that takes them.}
            bytes: {type: number, minimum: 0, description: The size of one value on a link.}
            rate: {type: number, minimum: 0, description: Values for each frame of the source.}
            encode: {type: string, maxLength: 32, default: "", description: How images travel.}
      notes:
        type: array
        description: What could not be found out.
        maxItems: 128
        items: {type: string, maxLength: 1024}
{{- end }}

{{- define "fairlead.pipeline.placement" -}}
type: object
description: What the plan by spec.plan promises, by the profile; not what is measured.
properties:
  digest: {type: string, maxLength: 64, description: The digest of the spec.plan that it was decided by.}
  periodSeconds: {type: number, description: 'How long the busiest host or link works on each frame: one frame a period can pass.'}
  latencySeconds: {type: number, description: How long one frame takes from its source to its end.}
  bottleneck: {type: string, maxLength: 128, description: 'The host or link (edge->server) that is busy for a whole period.'}
  better:
    type: object
    description: Another plan that saves 15 % or more. It is made once it has been better for 60 seconds.
    properties:
      since: {type: string, format: date-time, description: Since when another plan has been better.}
      periodSeconds: {type: number, description: Its period.}
      latencySeconds: {type: number, description: Its latency.}
      bottleneck: {type: string, maxLength: 128, description: Its bottleneck.}
      cost: {type: string, maxLength: 16384, description: 'What the move takes: stages that open again, pods that begin and end.'}
      moves:
        type: array
        description: Which stages would move.
        maxItems: 64
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [stage]
        items:
          type: object
          required: [stage, from, to]
          properties:
            stage: {type: string, maxLength: 63, description: The stage.}
            from: {type: string, maxLength: 63, description: Its host now.}
            to: {type: string, maxLength: 63, description: The host that it would have.}
  unavailable:
    type: array
    description: Hosts that no stage can be put on now.
    maxItems: 33
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [host]
    items:
      type: object
      required: [host, reason]
      properties:
        host: {type: string, maxLength: 63, description: The name of the host.}
        reason: {type: string, maxLength: 4096, description: 'Why, such as: node pi-3 is lost.'}
{{- end }}

{{- define "fairlead.pipeline.stage" -}}
type: object
required: [name]
x-kubernetes-validations:
  - rule: "[has(self.source), has(self.run), has(self.exec), has(self.sink)].filter(x, x).size() == 1"
    message: "a stage has exactly one of source, run, exec and sink"
  - rule: "!(has(self.source) || has(self.sink)) || !has(self.replicas) || self.replicas == 1"
    message: "a source or a sink has no replicas"
  - rule: "!has(self.scale) || has(self.run) || has(self.exec)"
    message: "a source or a sink has no scale"
  - rule: "!has(self.scale) || !has(self.replicas)"
    message: "replicas is a number, scale its bounds: state one of them"
properties:
  name: {type: string, maxLength: 63, pattern: '^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$', description: Its name.}
  source: {type: string, minLength: 1, maxLength: 63, description: 'Where frames come from, such as numbers, images, video or rtsp.'}
  run: {type: string, minLength: 1, maxLength: 512, description: 'A function or class, as `module:name` or `file.py:name`, or an ONNX model, as `model.onnx`.'}
  exec:
    type: array
    description: A program with its arguments.
    minItems: 1
    maxItems: 64
    items: {x-kubernetes-int-or-string: true, maxLength: 1024}
  sink: {type: string, minLength: 1, maxLength: 63, description: 'Where values go, such as jsonl, file, http or null.'}
  options: {type: object, maxProperties: 32, x-kubernetes-preserve-unknown-fields: true, description: 'Options of the source, model, program or sink.'}
  in: {type: string, maxLength: 128, description: 'The type of values that it takes, such as Image or Record.'}
  out: {type: string, maxLength: 128, description: The type of values that it makes.}
  replicas: {type: integer, minimum: 1, maximum: 64, description: Processes of the stage.}
  scale:
    type: object
    description: 'In place of replicas: bounds of their number, which the run changes with the load of the stage. In a pipeline''s file this is a mapping under `replicas`. Only in a chain, without state.'
    required: [max]
    x-kubernetes-validations:
      - rule: "self.max >= (has(self.min) ? self.min : 1)"
        message: "max is at least min"
    properties:
      min: {type: integer, minimum: 1, maximum: 64, description: 'The replicas with which the run begins, and the fewest; default 1.'}
      max: {type: integer, minimum: 1, maximum: 64, description: 'The most replicas; the cores of the pod bound them as well.'}
      age: {type: string, maxLength: 32, pattern: '^[0-9]+([.][0-9]+)?(ms|s|m|h)$', description: 'A busy stage needs more replicas while the frames that it takes are older; default 1s.'}
      up_after: {type: string, maxLength: 32, pattern: '^[0-9]+([.][0-9]+)?(ms|s|m|h)$', description: 'How long more must be needed; default 30s.'}
      down_after: {type: string, maxLength: 32, pattern: '^[0-9]+([.][0-9]+)?(ms|s|m|h)$', description: 'How long fewer must be enough; default 5m.'}
  ordered: {type: boolean, description: 'False: replicas hand frames on in any order.'}
  batch: {x-kubernetes-preserve-unknown-fields: true, description: '`auto`, or `{most: 8, wait: 10ms}`: how many values one call gets.'}
  on_error: {type: string, enum: [stop, skip, restart], description: What follows when the stage fails.}
  timeout: {type: string, maxLength: 32, description: 'How long one call may take, such as 500ms.'}
  cores: {type: array, maxItems: 1024, items: {type: integer, minimum: 0, maximum: 65535}, description: The cores that its process is pinned to.}
  memory: {x-kubernetes-int-or-string: true, maxLength: 32, description: 'How much its process may hold, such as 512Mi.'}
  host: {type: string, maxLength: 20, description: 'The host that it is on: one of spec.hosts, or local. Without it, spec.plan chooses; without that, it is local. In a pipeline''s file this is `on`, which YAML reads as true.'}
{{- end }}

{{- define "fairlead.pipeline.edge" -}}
type: object
required: [from, to]
x-kubernetes-validations:
  - rule: self.from != self.to
    message: "a stage cannot follow itself: from and to are the same"
properties:
  from: {type: string, maxLength: 63, description: The stage that makes the frames.}
  to: {type: string, maxLength: 63, description: The stage that takes them.}
  policy: {type: string, maxLength: 32, pattern: '^(block|drop_oldest|drop_newest|latest_only|sample\([0-9]+\))$', description: 'What happens when the next stage is slower; default block.'}
  depth: {type: integer, minimum: 1, maximum: 256, description: 'How many frames the edge holds; default 8.'}
  max_age: {type: string, maxLength: 32, description: 'Frames that were captured longer ago are dropped, such as 200ms.'}
  encode: {type: string, enum: [jpeg], description: How images travel between hosts.}
{{- end }}

{{- define "fairlead.pipeline.group" -}}
nodeSelector:
  type: object
  description: Labels that its node must have.
  maxProperties: 32
  additionalProperties: {type: string, maxLength: 63}
class: {type: string, maxLength: 50, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', description: 'A device of the catalog that its node must have, such as jetson-orin-nano.'}
tolerations:
  {{- include "fairlead.kind.tolerations" "Taints of nodes that its pod tolerates." | nindent 2 }}
resources:
  type: object
  description: What its container requests and may use.
  properties:
    {{- range list "requests" "limits" }}
    {{ . }}:
      type: object
      maxProperties: 16
      additionalProperties: {x-kubernetes-int-or-string: true, maxLength: 32}
    {{- end }}
accelerator:
  type: object
  description: Its share of accelerators, placed by the fairlead scheduler.
  required: [memory]
  properties:
    memory: {type: string, maxLength: 32, description: 'Of each, such as 2Gi.'}
    compute: {type: integer, minimum: 1, maximum: 100, description: Percent of the compute of each.}
    count: {type: integer, minimum: 1, maximum: 16, description: 'How many; default 1.'}
dataClaim: {{ include "fairlead.pipeline.name" "A PersistentVolumeClaim of this namespace at /data; without it, /data ends with the pod." }}
tlsSecret: {{ include "fairlead.pipeline.name" "A Secret of this namespace with tls.crt, tls.key and ca.crt, as cert-manager writes it; without it, the operator issues certificates." }}
{{- end }}

{{- define "fairlead.pipeline.name" -}}
{type: string, maxLength: 253, pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$', description: {{ . | quote }}}
{{- end }}

{{- define "fairlead.pipeline.status" -}}
type: object
description: What the operator has seen and decided.
properties:
  observedGeneration: {type: integer, format: int64, description: The generation of the spec that this is about.}
  stages: {type: integer, description: How many stages there are.}
  pods: {type: string, maxLength: 16, description: 'Pods that are ready, of those that shall be: 2/3.'}
  completed: {type: string, maxLength: 64, description: The digest of the run that has come to its end.}
  plan:
    type: array
    description: The host of each stage.
    maxItems: 64
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [stage]
    items:
      type: object
      required: [stage, host]
      properties:
        stage: {type: string, maxLength: 63}
        host: {type: string, maxLength: 63}
  placement:
    {{- include "fairlead.pipeline.placement" . | nindent 4 }}
  scaling:
    type: array
    description: The stages whose replicas follow their load, as the run last said.
    maxItems: 64
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [stage]
    items:
      type: object
      required: [stage, replicas, min, max, changes]
      properties:
        stage: {type: string, maxLength: 63}
        replicas: {type: integer, description: How many it has.}
        min: {type: integer, description: The fewest.}
        max: {type: integer, description: The most.}
        changes: {type: integer, description: How often the run has changed the number.}
        reason: {type: string, maxLength: 1024, description: 'Why it was changed last, such as: frames were 1.2s old for 30s.'}
  hosts:
    type: array
    description: The pod of each host.
    maxItems: 33
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties:
        name: {type: string, maxLength: 63}
        pod: {type: string, maxLength: 253}
        node: {type: string, maxLength: 253}
        ready: {type: boolean}
        message: {type: string, maxLength: 1024, description: Why it is not ready.}
  conditions:
    {{- include "fairlead.kind.conditions" "Accepted: the spec is sound. Planned: each stage has a host. Ready: frames flow. Progressing: pods change." | nindent 4 }}
{{- end }}
