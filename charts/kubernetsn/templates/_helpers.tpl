{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "kubernetsn.labels" -}}
app.kubernetes.io/name: kubernetsn
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "kubernetsn.image" -}}
{{ .root.Values.image.prefix }}/{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- define "kubernetsn.networks" -}}
{{ toYaml (dict "networks" (ternary (list) .Values.networks .Values.operator.enabled)) }}
{{- end }}
