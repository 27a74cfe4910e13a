{{/* The pod's volumes; each container's template has its mounts. */}}
{{- define "fairlead.volumes" -}}
{{- if include "fairlead.publishes" . }}
{{- include "fairlead.token" . }}
{{- end }}
{{- if .Values.replay.root }}
- {name: replay, hostPath: {path: {{ .Values.replay.root }}, type: Directory}}
{{- else if not .Values.userNamespaces }}
- {name: sys, hostPath: {path: /sys, type: Directory}}
- {name: dev, hostPath: {path: /dev, type: Directory}}
- {name: cpuinfo, hostPath: {path: /proc/cpuinfo, type: File}}
- {name: meminfo, hostPath: {path: /proc/meminfo, type: File}}
- {name: stat, hostPath: {path: /proc/stat, type: File}}
- {name: drivers, hostPath: {path: /proc/driver, type: Directory}}
- {name: etc, hostPath: {path: /etc, type: Directory}}
- {name: nvpmodel, hostPath: {path: /var/lib/nvpmodel, type: DirectoryOrCreate}}
- {name: board, emptyDir: {sizeLimit: 1Mi}}
{{- end }}
{{- if include "fairlead.allocates" . }}
- {name: plugins, hostPath: {path: {{ .Values.kubeletDir }}/plugins/fairlead.dev, type: DirectoryOrCreate}}
- {name: plugins-registry, hostPath: {path: {{ .Values.kubeletDir }}/plugins_registry/fairlead.dev, type: DirectoryOrCreate}}
{{- end }}
{{- if .Values.warden.enabled }}
- {name: run, emptyDir: {sizeLimit: 1Mi}}
- {name: pod-resources, hostPath: {path: {{ .Values.kubeletDir }}/pod-resources, type: Directory}}
{{- if .Values.warden.cdi.enabled }}
- {name: cdi, hostPath: {path: {{ .Values.warden.cdi.folder }}, type: DirectoryOrCreate}}
{{- end }}
{{- end }}
{{- if include "fairlead.attributes" . }}
- {name: attribution, hostPath: {path: {{ .Values.attribution.folder }}, type: DirectoryOrCreate}}
- {name: container-links, hostPath: {path: /var/log/containers, type: DirectoryOrCreate}}
{{- end }}
{{- if include "fairlead.limits" . }}
- {name: limiter, hostPath: {path: /run/fairlead-mps, type: DirectoryOrCreate}}
{{- end }}
{{- with .Values.metrics.tls.secretName }}
- {name: tls, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .Values.metrics.token.secretName }}
- {name: metrics-token, secret: {secretName: {{ . }}}}
{{- end }}
{{- end }}
