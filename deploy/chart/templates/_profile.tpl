{{/* The schema of a ModelProfile's spec. Every string and list has an end, so that no object nears the limit of 1 MiB. */}}
{{- define "fairlead.profile.spec" -}}
type: object
required: [version, setup, host, model, digest, made]
x-kubernetes-validations:
  - rule: self.version == oldSelf.version && self.setup == oldSelf.setup && self.host == oldSelf.host
    message: "version, setup and host stay as they are: figures of another setup are another profile"
  - rule: has(self.measured) || has(self.seen) || has(self.reason)
    message: "a profile says something: measured, seen, or the reason why there is nothing"
  - rule: "!has(self.measured) || has(self.features)"
    message: "measured needs features: the work that the figures are of"
  - rule: "!has(oldSelf.measured) || has(self.measured) && self.measured.peakBytes >= oldSelf.measured.peakBytes"
    message: "measured.peakBytes is the most that was ever held: it never shrinks; delete the profile to begin anew"
  - rule: >-
      !has(oldSelf.seen) || !has(oldSelf.seen.peakBytes)
      || has(self.seen) && has(self.seen.peakBytes) && self.seen.peakBytes >= oldSelf.seen.peakBytes
    message: "seen.peakBytes is the most that was ever held: it never shrinks; delete the profile to begin anew"
properties:
  version: {type: integer, minimum: 1, maximum: 1000, description: Of the fields below; readers leave out what they do not know.}
  host: {type: string, maxLength: 256, description: 'The board or processor around the device, in its own words.'}
  node: {type: string, maxLength: 253, description: Who wrote it last.}
  model: {type: string, maxLength: 253, description: 'The model''s name, for people.'}
  made: {type: string, format: date-time, maxLength: 40, description: When the figures were last written.}
  reason: {type: string, minLength: 1, maxLength: 1024, description: Why nothing was measured.}
  digest:
    type: string
    pattern: ^[0-9a-f]{16,63}$
    maxLength: 63
    description: The model's structure and sizes, as `fairlead analyze` names them.
    x-kubernetes-validations:
      - rule: self == oldSelf
        message: "digest stays as it is: another model is another profile"
  setup:
    type: object
    description: A device as models meet it.
    required: [device, runtime, version, precision]
    properties:
      device: {type: string, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63, description: The catalog id.}
      runtime: {type: string, minLength: 1, maxLength: 63, description: 'With its way to the device, as `onnxruntime-cuda`.'}
      version: {type: string, maxLength: 63, description: The runtime's.}
      precision: {type: string, minLength: 1, maxLength: 16}
      threads: {type: integer, minimum: 0, maximum: 65536, description: 'That compute on the host; 0 where another device computes.'}
      effectiveOps: {type: number, minimum: 0, maximum: 1.0e+24, description: Operations per second that it was capable of.}
      linkBitsPerSecond: {type: number, minimum: 0, maximum: 1.0e+15}
      power: {type: number, minimum: 0, maximum: 1.0e+6, description: 'The limit of the power mode, in watts.'}
  features:
    type: object
    description: What predictions are made from; the model's operators, added up by kind.
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
    description: What calibration runs showed; times in seconds.
    required: [seconds, p90, runs, wall, peakBytes]
    properties:
      seconds: {{ include "fairlead.profile.time" "Of one run, time spent waiting for a CPU taken off." }}
      p90: {{ include "fairlead.profile.time" "What nine of ten runs took at most." }}
      wall: {{ include "fairlead.profile.time" "Of one run as the clock saw it." }}
      runs: {type: integer, format: int64, minimum: 1}
      waited: {type: number, minimum: 0, maximum: 1000, description: The share of the time spent waiting for a CPU.}
      peakBytes: {type: integer, format: int64, minimum: 0, description: 'The most of the device''s memory that was held.'}
      baseBytes: {type: integer, format: int64, minimum: 0, description: Held before the model was loaded.}
      watts: {type: number, minimum: 0, maximum: 1.0e+6, description: 'Of the device, busy with this model.'}
  file:
    type: object
    description: What the model's file says of it beyond its work; it holds on every device.
    properties:
      format: {type: string, maxLength: 16}
      precision: {type: string, maxLength: 16, description: Of most multiply-adds.}
      exact: {type: boolean, description: 'False: the work is a lower bound.'}
      unsupported:
        type: object
        description: By runtime, why the file does not run there as it is.
        maxProperties: 16
        additionalProperties:
          type: array
          maxItems: 16
          items: {type: string, maxLength: 256}
  seen:
    type: object
    description: What real use showed; times in seconds.
    minProperties: 1
    properties:
      image: {type: string, maxLength: 1024, description: The container that ran it.}
      peakBytes: {type: integer, format: int64, minimum: 0, description: 'The most of the device''s memory that was ever held.'}
      watts: {type: number, minimum: 0, maximum: 1.0e+6, description: 'Of the device, busy with this model.'}
      ramp: {{ include "fairlead.profile.time" "From its start until it took as much of the device as in the long run." }}
      latency:
        type: object
        required: [median, p90, count]
        x-kubernetes-validations:
          - rule: self.p90 >= self.median
            message: "p90 is not less than the median"
        properties:
          median: {{ include "fairlead.profile.time" "Of one run." }}
          p90: {{ include "fairlead.profile.time" "What nine of ten runs took at most." }}
          count: {type: integer, format: int64, minimum: 1}
          ratio: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 1.0e+9, description: The median by what was estimated.}
{{- end }}

{{- define "fairlead.profile.time" -}}
{type: number, minimum: 0, exclusiveMinimum: true, maximum: 1.0e+9, description: {{ . | quote }}}
{{- end }}

{{/* Whether the kind is there and another release's, or nobody's: "yes" or nothing. Helm would refuse to install beside it. */}}
{{- define "fairlead.profile.foreign" -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "modelprofiles.fairlead.dev" -}}
{{- $notes := .metadata.annotations | default dict -}}
{{- $owner := printf "%s/%s" (get $notes "meta.helm.sh/release-namespace") (get $notes "meta.helm.sh/release-name") -}}
{{- if ne $owner (printf "%s/%s" $.Release.Namespace $.Release.Name) -}}yes{{- end -}}
{{- end -}}
{{- end }}
