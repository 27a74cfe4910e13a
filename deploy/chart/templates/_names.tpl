{{/* Names and fragments that several templates use. */}}

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
{{ include "fairlead.image.reference" (dict "top" . "image" .Values.image) }}
{{- end }}

{{/* The reference of an image. Called with the chart (`top`) and the `image` of its values. */}}
{{- define "fairlead.image.reference" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .top.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The agents' user name at the API server, which the policies match. */}}
{{- define "fairlead.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{/* The scheduler's user name at the API server. */}}
{{- define "fairlead.scheduler.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:fairlead-scheduler
{{- end }}

{{/* Whether claims are published: enabled, and served by the API server. "yes" or nothing. */}}
{{- define "fairlead.claims" -}}
{{- $served := and (.Capabilities.APIVersions.Has "resource.k8s.io/v1") (semverCompare ">=1.34-0" .Capabilities.KubeVersion.Version) -}}
{{- if and .Values.publish.claims $served -}}yes{{- end -}}
{{- end }}

{{/* What the agent publishes, in the form of its command line; nothing if all of it is off. */}}
{{- define "fairlead.publishes" -}}
{{- $ways := list -}}
{{- if .Values.publish.labels }}{{ $ways = append $ways "labels" }}{{ end -}}
{{- if .Values.publish.devicePlugin }}{{ $ways = append $ways "plugin" }}{{ end -}}
{{- if include "fairlead.claims" . }}{{ $ways = append $ways "claims" }}{{ end -}}
{{- join "," $ways -}}
{{- end }}

{{/* Whether devices are allocated through the kubelet: "yes" or nothing. */}}
{{- define "fairlead.allocates" -}}
{{- if or .Values.publish.devicePlugin (include "fairlead.claims" .) -}}yes{{- end -}}
{{- end }}

{{/* Whether use is attributed to pods: enabled, and not in user namespaces, which share no pid namespace. "yes" or nothing. */}}
{{- define "fairlead.attributes" -}}
{{- if and .Values.attribution.enabled (not .Values.userNamespaces) -}}yes{{- end -}}
{{- end }}

{{/* Whether shares are enforced: enabled, and devices are allocated. "yes" or nothing. */}}
{{- define "fairlead.limits" -}}
{{- if and .Values.limiter.enabled (include "fairlead.allocates" .) -}}yes{{- end -}}
{{- end }}

{{/* The privileges that every container drops. */}}
{{- define "fairlead.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The token is mounted only into the containers that name this volume. */}}
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

{{/* Values that are valid one by one and conflict with each other. */}}
{{- define "fairlead.checks" -}}
{{- with .Values -}}
{{- if and (include "fairlead.claims" $) (not (and .warden.enabled .warden.cdi.enabled)) -}}
{{- fail "publish.claims: claims reach containers through CDI files, which the warden writes. Set warden.enabled and warden.cdi.enabled to true, or publish.claims to false." -}}
{{- end -}}
{{- if and .metrics.token.secretName (not .metrics.tls.secretName) -}}
{{- fail "metrics.token.secretName: without TLS the token would travel in plain text. Set metrics.tls.secretName as well." -}}
{{- end -}}
{{- if and .publish.legacyLabels (not .publish.labels) -}}
{{- fail "publish.legacyLabels: they come with the other labels. Set publish.labels to true." -}}
{{- end -}}
{{- if and .profiles.agentsWrite (not .profiles.enabled) -}}
{{- fail "profiles.agentsWrite: agents cannot write profiles without the kind ModelProfile. Set profiles.enabled to true." -}}
{{- end -}}
{{- if and .analyser.enabled (not .profiles.enabled) -}}
{{- fail "analyser.enabled: the analyser stores its results as ModelProfiles. Set profiles.enabled to true." -}}
{{- end -}}
{{- if and .scheduler.enabled (eq .scheduler.name "default-scheduler") -}}
{{- fail "scheduler.name: default-scheduler is the cluster's own scheduler, and both would place the same pods. Choose another name." -}}
{{- end -}}
{{- if and .extender.tls.clients (not .extender.tls.secretName) -}}
{{- fail "extender.tls.clients: client certificates need TLS. Set extender.tls.secretName as well." -}}
{{- end -}}
{{- if ne (empty .scheduler.admission.tls.secretName) (empty .scheduler.admission.tls.caBundle) -}}
{{- fail "scheduler.admission.tls: the API server needs the certificate's authority. Set secretName and caBundle, or neither." -}}
{{- end -}}
{{- if and .limiter.hami (not .limiter.enabled) -}}
{{- fail "limiter.hami: pods with HAMi's resources are held to them by the limiter. Set limiter.enabled to true." -}}
{{- end -}}
{{- if and .limiter.enabled .userNamespaces -}}
{{- fail "limiter.enabled: in a user namespace no device is allocated that could be limited. Set userNamespaces to false." -}}
{{- end -}}
{{- if and .replay.root .userNamespaces -}}
{{- fail "replay.root: a user namespace shows the machine itself, not a replayed one. Set userNamespaces to false." -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A resource that Helm creates after an uninstall, in the order of its weight, and removes again. */}}
{{- define "fairlead.hook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* A resource that Helm creates before an uninstall, in the order of its weight, and removes again on success. */}}
{{- define "fairlead.hook.before" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
