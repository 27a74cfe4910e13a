{{/* What the schemas of several kinds have. */}}
{{- define "fairlead.kind.conditions" -}}
type: array
description: {{ . | quote }}
maxItems: 16
x-kubernetes-list-type: map
x-kubernetes-list-map-keys: [type]
items:
  type: object
  required: [type, status, lastTransitionTime, reason, message]
  properties:
    type: {type: string, maxLength: 316}
    status: {type: string, enum: ["True", "False", Unknown]}
    reason: {type: string, minLength: 1, maxLength: 1024, pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$'}
    message: {type: string, maxLength: 32768}
    observedGeneration: {type: integer, format: int64, minimum: 0}
    lastTransitionTime: {type: string, format: date-time}
{{- end }}

{{- define "fairlead.kind.tolerations" -}}
type: array
description: {{ . }}
maxItems: 32
items:
  type: object
  properties:
    key: {type: string, maxLength: 317}
    operator: {type: string, enum: [Exists, Equal]}
    value: {type: string, maxLength: 63}
    effect: {type: string, enum: [NoSchedule, PreferNoSchedule, NoExecute]}
    tolerationSeconds: {type: integer, format: int64, minimum: 0}
{{- end }}
