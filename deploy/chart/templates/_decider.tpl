{{/*
A program that decides and never touches a node: the scheduler, the extender, the operator and the admission webhook. Called with
the chart and what differs between them: `component`, `values`, `args`, `grace`, the `secret` for TLS, if any, and the `image`, if it is not the scheduler's.
*/}}
{{- define "fairlead.decider" -}}
{{- $place := .top.Values.scheduler -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: fairlead-{{ .component }}
  namespace: {{ .top.Release.Namespace }}
  labels:
    {{- include "fairlead.decider.labels" . | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      {{- include "fairlead.decider.selector" . | nindent 6 }}
  # A new replica has synced the whole cluster before an old one is stopped.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      labels:
        {{- include "fairlead.decider.labels" . | nindent 8 }}
    spec:
      serviceAccountName: fairlead-{{ .component }}
      automountServiceAccountToken: false
      {{- with .top.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $place.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      terminationGracePeriodSeconds: {{ .grace }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        seccompProfile:
          type: RuntimeDefault
      containers:
        {{- include "fairlead.decider.container" . | nindent 8 }}
      volumes:
        {{- include "fairlead.token" .top | nindent 8 }}
        {{- with .secret }}
        - name: tls
          secret: {secretName: {{ . }}}
        {{- end }}
        {{- with .usageSecret }}
        - name: usage
          secret: {secretName: {{ . }}}
        {{- end }}
      {{- with $place.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $place.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        {{- if $place.affinity }}
        {{- toYaml $place.affinity | nindent 8 }}
        {{- else }}
        # A node failure stops one replica at most.
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    {{- include "fairlead.decider.selector" . | nindent 20 }}
        {{- end }}
{{- end }}

{{- define "fairlead.decider.container" -}}
- name: {{ .component }}
  image: {{ include "fairlead.image.reference" (dict "top" .top "image" (.image | default .top.Values.scheduler.image)) }}
  imagePullPolicy: {{ .top.Values.image.pullPolicy }}
  args:
    {{- toYaml .args | nindent 4 }}
    {{- range .values.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    # So that the leader can publish the address of its /explain endpoint.
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  ports:
    - {name: http, containerPort: {{ .values.port }}}
  {{- $scheme := ternary "HTTPS" "HTTP" (not (empty .secret)) }}
  livenessProbe:
    httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
    periodSeconds: 20
    timeoutSeconds: 5
  readinessProbe:
    httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
    periodSeconds: 5
    timeoutSeconds: 5
  # The end of its log goes into the pod's status, where `fairlead doctor` finds it.
  terminationMessagePolicy: FallbackToLogsOnError
  securityContext:
    {{- include "fairlead.confined" .top | nindent 4 }}
  resources:
    {{- toYaml .values.resources | nindent 4 }}
  volumeMounts:
    {{- include "fairlead.token.mount" .top | nindent 4 }}
    {{- if .secret }}
    - {name: tls, mountPath: /etc/fairlead/tls, readOnly: true}
    {{- end }}
    {{- if .usageSecret }}
    - {name: usage, mountPath: /etc/fairlead/usage, readOnly: true}
    {{- end }}
{{- end }}

{{- define "fairlead.decider.labels" -}}
{{ include "fairlead.labels" .top }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "fairlead.decider.selector" -}}
{{ include "fairlead.selector" .top }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Its service account, without an automounted token, and the binding of its role. */}}
{{- define "fairlead.decider.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: fairlead-{{ .component }}
  namespace: {{ .top.Release.Namespace }}
  labels:
    {{- include "fairlead.decider.labels" . | nindent 4 }}
automountServiceAccountToken: false
{{- if .top.Values.rbac.create }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: fairlead-{{ .component }}
  labels:
    {{- include "fairlead.decider.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: fairlead-{{ .component }}
subjects:
  - kind: ServiceAccount
    name: fairlead-{{ .component }}
    namespace: {{ .top.Release.Namespace }}
{{- end }}
{{- end }}

{{/* Everything that a placement depends on. */}}
{{- define "fairlead.decider.reads" -}}
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourceslices, resourceclaims, resourceclaimtemplates, deviceclasses]
  verbs: [list, watch]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses, podgroups, workloads]
  verbs: [list, watch]
- apiGroups: [fairlead.dev]
  resources: [modelprofiles]
  verbs: [list, watch]
{{- end }}

{{/* The PodMonitor for the Prometheus operator, like that of the agents. */}}
{{- define "fairlead.decider.monitor" -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: fairlead-{{ .component }}
  namespace: {{ .top.Release.Namespace }}
  labels:
    {{- include "fairlead.decider.labels" . | nindent 4 }}
    {{- with .top.Values.metrics.podMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "fairlead.decider.selector" . | nindent 6 }}
  podMetricsEndpoints:
    - port: http
      path: /metrics
      interval: {{ .top.Values.metrics.podMonitor.interval }}
      {{- if .secret }}
      scheme: https
      tlsConfig:
        ca:
          secret: {name: {{ .secret }}, key: ca.crt}
        serverName: fairlead-{{ .component }}.{{ .top.Release.Namespace }}.svc
      {{- end }}
      relabelings:
        - {sourceLabels: [__meta_kubernetes_pod_name], targetLabel: instance}
{{- end }}

{{- define "fairlead.decider.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: fairlead-{{ .component }}
  namespace: {{ .top.Release.Namespace }}
  labels:
    {{- include "fairlead.decider.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "fairlead.decider.selector" . | nindent 6 }}
{{- end }}

{{- define "fairlead.scheduler.image" -}}
{{ include "fairlead.image.reference" (dict "top" . "image" .Values.scheduler.image) }}
{{- end }}
