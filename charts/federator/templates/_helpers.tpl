{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "federator.labels" -}}
app.kubernetes.io/name: federator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- /* By digest, so that nobody who holds the registry or its name can have another image started. */}}
{{- define "federator.image" -}}
{{- $image := .Values.image }}
{{- $prefix := required "image.prefix: say where the image is found, such as registry.example.org/kubernetsn, or localhost/kubernetsn if each node imported it; those that `make images` makes are described by --values out/images/values.yaml" $image.prefix }}
{{- if $image.digests }}
{{- $prefix }}/ktsn-federator@{{ required "image.digests: the digest of ktsn-federator is missing; `make images` writes all of them into out/images/values.yaml" (get $image.digests "ktsn-federator") }}
{{- else }}
{{- $prefix }}/ktsn-federator:{{ required "image.digests: say which image this is; `make images` writes its digest into out/images/values.yaml. Or give image.tag, and trust whoever may push to image.prefix" $image.tag }}
{{- end }}
{{- end }}
{{- define "federator.subjects" -}}
- {kind: ServiceAccount, name: ktsn-federator, namespace: {{ .Values.namespace.name }}}
{{- with .Values.hub.subjects }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- /* The same, as flow control names them. */}}
{{- define "federator.flowSubjects" -}}
- {kind: ServiceAccount, serviceAccount: {name: ktsn-federator, namespace: {{ .Values.namespace.name }}}}
{{- range .Values.hub.subjects }}
{{- if eq .kind "ServiceAccount" }}
- {kind: ServiceAccount, serviceAccount: {name: {{ .name | quote }}, namespace: {{ .namespace | quote }}}}
{{- else }}
- {kind: {{ .kind }}, {{ lower .kind }}: {name: {{ .name | quote }}}}
{{- end }}
{{- end }}
{{- end }}
