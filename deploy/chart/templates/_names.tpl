{{/* What is said more than once. */}}

{{- define "fairlead.labels" -}}
{{ include "fairlead.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fairlead
{{- end }}

{{- define "fairlead.selector" -}}
app.kubernetes.io/name: fairlead
{{- end }}

{{- define "fairlead.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The user of the API server that the policies are bound to. */}}
{{- define "fairlead.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{/* The scheduler's user of the API server. */}}
{{- define "fairlead.scheduler.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:fairlead-scheduler
{{- end }}

{{/* Claims are published where they are wanted and the server has them: "yes" or nothing. */}}
{{- define "fairlead.claims" -}}
{{- $served := and (.Capabilities.APIVersions.Has "resource.k8s.io/v1") (semverCompare ">=1.34-0" .Capabilities.KubeVersion.Version) -}}
{{- if and .Values.publish.claims $served -}}yes{{- end -}}
{{- end }}

{{/* What the agent publishes, as its command line says it; nothing when all of it is off. */}}
{{- define "fairlead.ways" -}}
{{- $ways := list -}}
{{- if .Values.publish.labels }}{{ $ways = append $ways "labels" }}{{ end -}}
{{- if .Values.publish.devicePlugin }}{{ $ways = append $ways "plugin" }}{{ end -}}
{{- if include "fairlead.claims" . }}{{ $ways = append $ways "claims" }}{{ end -}}
{{- join "," $ways -}}
{{- end }}

{{/* Whether anything is handed out through the kubelet: "yes" or nothing. */}}
{{- define "fairlead.handsOut" -}}
{{- if or .Values.publish.devicePlugin (include "fairlead.claims" .) -}}yes{{- end -}}
{{- end }}

{{/* What no container of ours has. */}}
{{- define "fairlead.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The token is not mounted into every container: only into those that name this volume. */}}
{{- define "fairlead.token" -}}
- name: token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3607
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end }}

{{- define "fairlead.token.mount" -}}
- name: token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end }}

{{/* Values that are sound one by one and make no sense together. */}}
{{- define "fairlead.checks" -}}
{{- with .Values -}}
{{- if and (include "fairlead.claims" $) (not (and .warden.enabled .warden.cdi.enabled)) -}}
{{- fail "publish.claims: claims reach containers through CDI files, which the warden writes. Set warden.enabled and warden.cdi.enabled to true, or publish.claims to false." -}}
{{- end -}}
{{- if and .metrics.token.secretName (not .metrics.tls.secretName) -}}
{{- fail "metrics.token.secretName: without TLS everybody on the way could read the token. Set metrics.tls.secretName as well." -}}
{{- end -}}
{{- if and .publish.legacyLabels (not .publish.labels) -}}
{{- fail "publish.legacyLabels: they come with the other labels. Set publish.labels to true." -}}
{{- end -}}
{{- if and .profiles.agentsWrite (not .profiles.enabled) -}}
{{- fail "profiles.agentsWrite: there is nothing to write without the kind ModelProfile. Set profiles.enabled to true." -}}
{{- end -}}
{{- if and .scheduler.enabled (eq .scheduler.name "default-scheduler") -}}
{{- fail "scheduler.name: default-scheduler is the cluster's own, and two would place the same pods. Choose another name." -}}
{{- end -}}
{{- if and .extender.tls.clients (not .extender.tls.secretName) -}}
{{- fail "extender.tls.clients: certificates are shown over TLS alone. Set extender.tls.secretName as well." -}}
{{- end -}}
{{- if ne (empty .scheduler.admission.tls.secretName) (empty .scheduler.admission.tls.caBundle) -}}
{{- fail "scheduler.admission.tls: the API server must know the authority of the certificate. Set secretName and caBundle, or neither." -}}
{{- end -}}
{{- if and .replay.root .userNamespaces -}}
{{- fail "replay.root: a user namespace shows the machine itself, not a replayed one. Set userNamespaces to false." -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A resource that Helm makes after an uninstall, in the order of its weight, and removes again. */}}
{{- define "fairlead.hook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* A resource that Helm makes before an uninstall, in the order of its weight, and removes again where all went well. */}}
{{- define "fairlead.hook.before" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
