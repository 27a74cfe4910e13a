{{/*
The warden: the one container that can read the kubelet's pod-resources socket and, if enabled, write CDI files, which
amounts to root on the node. So it is small, checks every byte, and has no token.
*/}}
{{- define "fairlead.warden" -}}
- name: warden
  image: {{ include "fairlead.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - warden
    - serve
    - --folder=/run/fairlead
    - --group=10001
    - --pod-resources={{ .Values.kubeletDir }}/pod-resources/kubelet.sock
    {{- if .Values.warden.cdi.enabled }}
    - --cdi-dir={{ .Values.warden.cdi.folder }}
    {{- if .Values.replay.root }}
    - --device-root={{ .Values.replay.root }}
    {{- else if not .Values.userNamespaces }}
    - --device-root=/host
    {{- end }}
    {{- end }}
  # All containers get SIGTERM at once; the agent still removes its CDI files through the warden.
  lifecycle:
    preStop:
      sleep: {seconds: 3}
  terminationMessagePolicy: FallbackToLogsOnError
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    {{- include "fairlead.confined" . | nindent 4 }}
  resources:
    {{- toYaml .Values.warden.resources | nindent 4 }}
  volumeMounts:
    - {name: run, mountPath: /run/fairlead}
    - {name: pod-resources, mountPath: {{ .Values.kubeletDir }}/pod-resources, readOnly: true}
    {{- if .Values.warden.cdi.enabled }}
    - {name: cdi, mountPath: {{ .Values.warden.cdi.folder }}}
    {{- if .Values.replay.root }}
    # To check a device node before it goes into a CDI file.
    - {name: replay, mountPath: {{ .Values.replay.root }}, readOnly: true}
    {{- else if not .Values.userNamespaces }}
    # To check a device node before it goes into a CDI file.
    {{- include "fairlead.machine.mounts" . | nindent 4 }}
    {{- end }}
    {{- end }}
{{- end }}
