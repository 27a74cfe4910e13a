{{/* The node of the pod that a token is bound to; empty for any other token. */}}
{{- define "fairlead.policy.node" -}}
'request.userInfo.?extra[?"authentication.kubernetes.io/node-name"][?0].orValue("")'
{{- end }}

{{- define "fairlead.policy.binding" -}}
{{- $top := index . 0 -}}
{{- $name := index . 1 -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "fairlead.labels" $top | nindent 4 }}
spec:
  policyName: {{ $name }}
  validationActions: [Deny]
{{- end }}
