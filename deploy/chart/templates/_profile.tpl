{{/* The schema of a ModelProfile's spec. Every string and list is bounded, so that no object nears the limit of 1 MiB. */}}
{{- define "fairlead.profile.spec" -}}
type: object
required: [version, setup, host, model, digest, made]
x-kubernetes-validations:
  - rule: self.version == oldSelf.version && self.setup == oldSelf.setup && self.host == oldSelf.host
    message: "version, setup and host are immutable: measurements of another setup are another profile"
  - rule: has(self.measured) || has(self.seen) || has(self.reason)
    message: "a profile needs measured, seen, or the reason why there is neither"
  - rule: "!has(self.measured) || has(self.features)"
    message: "measured needs features: the model's work that was measured"
  - rule: "!has(oldSelf.measured) || has(self.measured) && self.measured.peakBytes >= oldSelf.measured.peakBytes"
    message: "measured.peakBytes is the peak over all runs and never decreases; delete the profile to start over"
  - rule: >-
      !has(oldSelf.seen) || !has(oldSelf.seen.peakBytes)
      || has(self.seen) && has(self.seen.peakBytes) && self.seen.peakBytes >= oldSelf.seen.peakBytes
    message: "seen.peakBytes is the peak over all runs and never decreases; delete the profile to start over"
properties:
  version: {type: integer, minimum: 1, maximum: 1000, description: The format version of this spec; readers ignore unknown fields.}
  host: {type: string, maxLength: 256, description: 'The board or processor that hosts the device, by its own name.'}
  node: {type: string, maxLength: 253, description: The node that wrote it last.}
  model: {type: string, maxLength: 253, description: 'The model''s name, for people.'}
  made: {type: string, format: date-time, maxLength: 40, description: When the measurements were last written.}
  reason: {type: string, minLength: 1, maxLength: 1024, description: Why nothing was measured.}
  digest:
    type: string
    pattern: ^[0-9a-f]{16,63}$
    maxLength: 63
    description: The digest of the model's structure and sizes, as `fairlead analyze` prints it.
    x-kubernetes-validations:
      - rule: self == oldSelf
        message: "digest is immutable: another model is another profile"
  setup:
    type: object
    description: A device with its runtime and the limits under which models run there.
    required: [device, runtime, version, precision]
    properties:
      device: {type: string, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63, description: The catalog id.}
      runtime: {type: string, minLength: 1, maxLength: 63, description: 'The runtime with its backend for the device, such as `onnxruntime-cuda`.'}
      version: {type: string, maxLength: 63, description: The runtime's version.}
      precision: {type: string, minLength: 1, maxLength: 16}
      threads: {type: integer, minimum: 0, maximum: 65536, description: 'Threads that compute on the host; 0 if another device computes.'}
      effectiveOps: {type: number, minimum: 0, maximum: 1.0e+24, description: Operations per second that the device was capable of.}
      linkBitsPerSecond: {type: number, minimum: 0, maximum: 1.0e+15}
      power: {type: number, minimum: 0, maximum: 1.0e+6, description: 'The limit of the power mode, in watts.'}
  features:
    type: object
    description: The inputs of predictions; the model's operators, summed by kind.
    required: [batch, groups, peakBytes]
    properties:
      {{- range list "batch" "groups" "peakBytes" "inputBytes" "outputBytes" }}
      {{ . }}: {type: integer, format: int64, minimum: 0}
      {{- end }}
      work:
        type: object
        maxProperties: 64
        x-kubernetes-validations:
          - rule: self.all(kind, kind.size() <= 63 && self[kind].all(amount, amount.size() <= 63))
            message: "names of kinds and amounts have at most 63 characters"
        additionalProperties:
          type: object
          description: The amounts of one kind of operator.
          maxProperties: 32
          additionalProperties: {type: integer, format: int64, minimum: 0}
  measured:
    type: object
    description: The results of calibration runs; times in seconds.
    required: [seconds, p90, runs, wall, peakBytes]
    properties:
      seconds: {{ include "fairlead.profile.time" "Duration of one run, without the time spent waiting for a CPU." }}
      p90: {{ include "fairlead.profile.time" "90th percentile of the runs." }}
      wall: {{ include "fairlead.profile.time" "Wall-clock duration of one run." }}
      runs: {type: integer, format: int64, minimum: 1}
      waited: {type: number, minimum: 0, maximum: 1000, description: The share of the time spent waiting for a CPU.}
      peakBytes: {type: integer, format: int64, minimum: 0, description: 'Peak of the device''s memory in use.'}
      baseBytes: {type: integer, format: int64, minimum: 0, description: Memory in use before the model was loaded.}
      watts: {type: number, minimum: 0, maximum: 1.0e+6, description: 'Power of the device while it runs this model.'}
      noise: {type: number, minimum: 0, maximum: 100, description: 'How far, in logarithms, a usual round lies above seconds.'}
      load: {type: number, minimum: 0, maximum: 1, description: The share of the time in which any program of the machine waited for a CPU.}
      made: {type: string, maxLength: 40, description: When it was measured.}
  file:
    type: object
    description: Properties of the model's file beyond its work; they hold on every device.
    properties:
      format: {type: string, maxLength: 16}
      precision: {type: string, maxLength: 16, description: The precision of most multiply-adds.}
      exact: {type: boolean, description: 'False: the work is a lower bound.'}
      unsupported:
        type: object
        description: By runtime, the reasons why the file does not run there unchanged.
        maxProperties: 16
        additionalProperties:
          type: array
          maxItems: 16
          items: {type: string, maxLength: 256}
      scope: {type: string, maxLength: 256, description: 'What one run is, where that is less than it seems: one forward pass of a language model.'}
  seen:
    type: object
    description: Observations of real use; times in seconds.
    minProperties: 1
    properties:
      image: {type: string, maxLength: 1024, description: The container image that ran it.}
      peakBytes: {type: integer, format: int64, minimum: 0, description: 'Peak of the device''s memory in use, over all runs.'}
      watts: {type: number, minimum: 0, maximum: 1.0e+6, description: 'Power of the device while it runs this model.'}
      ramp: {{ include "fairlead.profile.time" "From its start until its load on the device reached the long-run level." }}
      latency:
        type: object
        required: [median, p90, count]
        x-kubernetes-validations:
          - rule: self.p90 >= self.median
            message: "p90 must not be less than the median"
        properties:
          median: {{ include "fairlead.profile.time" "Median duration of one run." }}
          p90: {{ include "fairlead.profile.time" "90th percentile of the runs." }}
          count: {type: integer, format: int64, minimum: 1}
          ratio: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 1.0e+9, description: The median divided by the estimate.}
{{- end }}

{{- define "fairlead.profile.time" -}}
{type: number, minimum: 0, exclusiveMinimum: true, maximum: 1.0e+9, description: {{ . | quote }}}
{{- end }}

{{/* Whether the kind exists and belongs to another release, or to none: "yes" or nothing. Helm would refuse to adopt it. */}}
{{- define "fairlead.kind.foreign" -}}
{{- $release := .top.Release -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $owner := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") -}}
{{- if ne $owner (printf "%s/%s" $release.Namespace $release.Name) -}}yes{{- end -}}
{{- end -}}
{{- end }}
