{{/*
The init container: it gives the agent's group its two folders below the kubelet's, and copies the few files of
/etc that identify a board, so that the agent need not see /etc. UID 0, but no capability.
Inside a user namespace none of this is needed, and none of it possible.
*/}}
{{- define "fairlead.open" -}}
{{- $looks := not (or .Values.replay.root .Values.userNamespaces) -}}
{{- $opens := and (include "fairlead.allocates" .) (not .Values.userNamespaces) -}}
{{- if or $looks $opens -}}
- name: open
  image: {{ include "fairlead.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - warden
    - open
    - --group=10001
    {{- if $opens }}
    - --folder={{ .Values.kubeletDir }}/plugins/fairlead.dev
    - --folder={{ .Values.kubeletDir }}/plugins_registry/fairlead.dev
    {{- end }}
    {{- if $looks }}
    - --copy=/host/etc/nv_tegra_release:/board/etc/
    - --copy=/host/etc/nvpmodel.conf:/board/etc/
    - --copy=/host/etc/nv_boot_control.conf:/board/etc/
    - --copy=/host/var/lib/nvpmodel/status:/board/nvpmodel/
    {{- end }}
  terminationMessagePolicy: FallbackToLogsOnError
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    {{- include "fairlead.confined" . | nindent 4 }}
  resources:
    {{- toYaml .Values.warden.resources | nindent 4 }}
  volumeMounts:
    {{- if $opens }}
    {{- include "fairlead.plugins.mounts" . | nindent 4 }}
    {{- end }}
    {{- if $looks }}
    - {name: etc, mountPath: /host/etc, readOnly: true}
    - {name: nvpmodel, mountPath: /host/var/lib/nvpmodel, readOnly: true}
    - {name: board, mountPath: /board}
    {{- end }}
{{- end -}}
{{- end }}

{{/* The agent's own two folders below the kubelet's, at the same paths as on the node. */}}
{{- define "fairlead.plugins.mounts" -}}
- {name: plugins, mountPath: {{ .Values.kubeletDir }}/plugins/fairlead.dev}
- {name: plugins-registry, mountPath: {{ .Values.kubeletDir }}/plugins_registry/fairlead.dev}
{{- end }}
