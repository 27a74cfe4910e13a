{{/* The pod of a job around an uninstall. Called with the chart, the container's name, the account and the arguments. */}}
{{- define "fairlead.cleaner" -}}
{{- $top := index . 0 -}}
restartPolicy: Never
serviceAccountName: {{ index . 2 }}
automountServiceAccountToken: false
{{- with $top.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: {{ index . 1 }}
    image: {{ include "fairlead.image" $top }}
    imagePullPolicy: {{ $top.Values.image.pullPolicy }}
    args: {{ index . 3 | toJson }}
    # The end of its log goes into the pod's status, where doctor and kubectl describe find it.
    terminationMessagePolicy: FallbackToLogsOnError
    securityContext:
      {{- include "fairlead.confined" $top | nindent 6 }}
    resources:
      {{- toYaml $top.Values.agent.resources | nindent 6 }}
    volumeMounts:
      {{- include "fairlead.token.mount" $top | nindent 6 }}
volumes:
  {{- include "fairlead.token" $top | nindent 2 }}
{{- with $top.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
# `fairlead retract --force` keeps other pods off the nodes.
tolerations: {{ append $top.Values.tolerations (dict "key" "fairlead.dev/retracting" "operator" "Exists") | toJson }}
{{- end }}
