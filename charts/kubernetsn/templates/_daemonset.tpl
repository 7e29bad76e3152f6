{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{- /*
ktsnd and its agent are two DaemonSets, because they are replaced in different ways. Each is there twice where nodes have Open
vSwitch: once for them and once for the others. What the four have in common; "ovs" tells the twins apart.
*/}}
{{- /* The labels by which a DaemonSet knows its pods; "component" is ktsnd or agent. */}}
{{- define "kubernetsn.daemonset.selector" -}}
app.kubernetes.io/name: kubernetsn
app.kubernetes.io/component: {{ .component }}
{{- if .ovs }}
kubernetsn.io/uplink: ovs
{{- end }}
{{- end }}
{{- define "kubernetsn.daemonset.podMetadata" -}}
labels:
  {{- include "kubernetsn.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- if .ovs }}
  kubernetsn.io/uplink: ovs
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- /* What both pods have in their spec: which nodes they are for, and whose network they use. */}}
{{- define "kubernetsn.daemonset.podSpec" -}}
{{- $ovs := .ovs }}
{{- with .root -}}
# The uplink, the tunnels and the bridges are the node's.
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
priorityClassName: {{ .Values.priorityClassName }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and .Values.uplink.ovs.nodeSelector (not $ovs) }}
# Those nodes have DaemonSets of their own.
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        {{- range $key, $value := .Values.uplink.ovs.nodeSelector }}
        - matchExpressions: [{key: {{ $key | quote }}, operator: NotIn, values: [{{ $value | quote }}]}]
        {{- end }}
{{- end }}
{{- if or .Values.nodeSelector .Values.operator.enabled $ovs }}
nodeSelector:
  {{- if $ovs }}
  {{- toYaml .Values.uplink.ovs.nodeSelector | nindent 2 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if .Values.operator.enabled }}
  # The operator's, for nodes with pods on networks.
  kubernetsn.io/active: "true"
  {{- end }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
