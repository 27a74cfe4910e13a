{{/* The agent: it scans, measures and publishes, as an unprivileged user. */}}
{{- define "fairlead.agent" -}}
- name: agent
  image: {{ include "fairlead.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    {{- include "fairlead.agent.args" . | nindent 4 }}
  env:
    - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
    {{- if .Values.nvidia.runtimeClassName }}
    # The runtime mounts NVIDIA's management library, and no compute device.
    - {name: NVIDIA_VISIBLE_DEVICES, value: all}
    - {name: NVIDIA_DRIVER_CAPABILITIES, value: utility}
    {{- end }}
  ports:
    - {name: metrics, containerPort: {{ .Values.metrics.port }}}
  livenessProbe:
    httpGet:
      {{- include "fairlead.probe" (list . "/healthz") | nindent 6 }}
    periodSeconds: 20
    timeoutSeconds: 5
  readinessProbe:
    httpGet:
      {{- include "fairlead.probe" (list . "/readyz") | nindent 6 }}
    periodSeconds: 5
    timeoutSeconds: 5
  terminationMessagePolicy: FallbackToLogsOnError
  securityContext:
    {{- if .Values.userNamespaces }}
    # Root of a user namespace has no privileges on the node. The mask would hide /sys/firmware, which
    # identifies a board.
    runAsUser: 0
    runAsGroup: 0
    procMount: Unmasked
    {{- else }}
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    {{- end }}
    {{- include "fairlead.confined" . | nindent 4 }}
  resources:
    {{- toYaml .Values.agent.resources | nindent 4 }}
  volumeMounts:
    {{- include "fairlead.agent.mounts" . | nindent 4 }}
{{- end }}

{{- define "fairlead.probe" -}}
{{- $top := index . 0 -}}
path: {{ index . 1 }}
port: metrics
{{- if $top.Values.metrics.tls.secretName }}
scheme: HTTPS
{{- end }}
{{- end }}

{{- define "fairlead.agent.args" -}}
{{- with .Values -}}
- serve
- agent
- --listen=:{{ .metrics.port }}
{{- if .replay.root }}
- --root=/host
- --device-root={{ .replay.root }}
{{- else if not .userNamespaces }}
- --host-root=/host
{{- else }}
- --no-dev
{{- end }}
- --sweep={{ .agent.sweep }}
- --sample={{ .agent.sample }}
{{- if include "fairlead.attributes" $ }}
- --attribution=/run/fairlead-attribution
{{- end }}
{{- if ne .metrics.dcgmNames "both" }}
- --dcgm-names={{ .metrics.dcgmNames }}
{{- end }}
{{- with .nvidia.ignoreXids }}
- --ignore-xids={{ join "," . }}
{{- end }}
{{- with include "fairlead.publishes" $ }}
- --publish={{ . }}
{{- end }}
{{- if .publish.legacyLabels }}
- --legacy-labels
{{- end }}
{{- if include "fairlead.allocates" $ }}
- --kubelet-dir={{ .kubeletDir }}
- --memory-unit={{ .memoryUnit }}
- --nvidia={{ .nvidia.mode }}
{{- if .warden.enabled }}
- --warden=/run/fairlead
{{- if not .warden.cdi.enabled }}
- --no-cdi
{{- end }}
{{- end }}
{{- end }}
{{- if include "fairlead.limits" $ }}
- --limiter=/run/fairlead-mps
{{- if .limiter.hami }}
- --limit-hami
{{- end }}
{{- end }}
{{- if .metrics.tls.secretName }}
- --tls-cert=/etc/fairlead/tls/tls.crt
- --tls-key=/etc/fairlead/tls/tls.key
{{- end }}
{{- if .metrics.token.secretName }}
- --token-file=/etc/fairlead/token/{{ .metrics.token.key }}
{{- end }}
{{- range .agent.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}
{{- end }}

{{- define "fairlead.agent.mounts" -}}
{{- if include "fairlead.publishes" . -}}
{{ include "fairlead.token.mount" . }}
{{- end }}
{{- if .Values.replay.root }}
- {name: replay, mountPath: /host, readOnly: true}
{{- else if not .Values.userNamespaces }}
{{ include "fairlead.machine.mounts" . }}
# Only the files of /proc that the agent reads: the rest shows the command line of every process of the node.
- {name: cpuinfo, mountPath: /host/proc/cpuinfo, readOnly: true}
- {name: meminfo, mountPath: /host/proc/meminfo, readOnly: true}
- {name: stat, mountPath: /host/proc/stat, readOnly: true}
- {name: drivers, mountPath: /host/proc/driver, readOnly: true}
- {name: board, mountPath: /host/etc, subPath: etc, readOnly: true}
- {name: board, mountPath: /host/var/lib/nvpmodel, subPath: nvpmodel, readOnly: true}
{{- if include "fairlead.mountsCdi" . }}
# To check whether NVIDIA's toolkit has written a CDI file for its GPUs there.
- {name: cdi, mountPath: /host{{ .Values.warden.cdi.folder }}, readOnly: true}
{{- end }}
{{- end }}
{{- if include "fairlead.allocates" . }}
{{ include "fairlead.plugins.mounts" . }}
{{- end }}
{{- if .Values.warden.enabled }}
- {name: run, mountPath: /run/fairlead, readOnly: true}
{{- end }}
{{- if include "fairlead.attributes" . }}
- {name: attribution, mountPath: /run/fairlead-attribution, readOnly: true}
# The names of containers by their ids, as the names of links; the logs that they lead to are not mounted.
- {name: container-links, mountPath: /var/log/containers, readOnly: true}
{{- end }}
{{- if include "fairlead.limits" . }}
- {name: limiter, mountPath: /run/fairlead-mps, readOnly: true}
{{- end }}
{{- if .Values.metrics.tls.secretName }}
- {name: tls, mountPath: /etc/fairlead/tls, readOnly: true}
{{- end }}
{{- if .Values.metrics.token.secretName }}
- {name: metrics-token, mountPath: /etc/fairlead/token, readOnly: true}
{{- end }}
{{- end }}

{{/* The node's devices, read-only including the mounts below them, such as /dev/shm. */}}
{{- define "fairlead.machine.mounts" -}}
- {name: sys, mountPath: /host/sys, readOnly: true, recursiveReadOnly: IfPossible}
- {name: dev, mountPath: /host/dev, readOnly: true, recursiveReadOnly: IfPossible}
{{- end }}

{{/* Nothing can be mounted below /etc: the agent's /etc is a read-only copy. "yes" or nothing. */}}
{{- define "fairlead.mountsCdi" -}}
{{- $cdi := .Values.warden.cdi -}}
{{- if and .Values.warden.enabled $cdi.enabled (include "fairlead.allocates" .) (not (hasPrefix "/etc" $cdi.folder)) -}}yes{{- end -}}
{{- end }}
