{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "kubernetsn.labels" -}}
app.kubernetes.io/name: kubernetsn
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- /* By digest, so that nobody who holds the registry or its name can give nodes another image. */}}
{{- define "kubernetsn.image" -}}
{{- $image := .root.Values.image }}
{{- $prefix := required "image.prefix: say where nodes find the images, such as registry.example.org/kubernetsn, or localhost/kubernetsn if each node imported them; those that `make images` makes are described by --values out/images/values.yaml" $image.prefix }}
{{- if $image.digests }}
{{- $prefix }}/{{ .name }}@{{ required (printf "image.digests: the digest of %s is missing; `make images` writes all of them into out/images/values.yaml" .name) (get $image.digests .name) }}
{{- else }}
{{- $prefix }}/{{ .name }}:{{ required "image.digests: say which images these are; `make images` writes their digests into out/images/values.yaml. Or give image.tag, and trust whoever may push to image.prefix" $image.tag }}
{{- end }}
{{- end }}
{{- /* What ktsnd may have: the rings of all pods and the rest. */}}
{{- define "kubernetsn.ktsndMemory" -}}
{{- /* The fourth is that of pods that were removed (datapath/daemon/node/ring_charges.h). */}}
{{- add .Values.ktsnd.ringMemoryMiB (div (int .Values.ktsnd.ringMemoryMiB) 4) .Values.ktsnd.ownMemoryMiB }}Mi
{{- end }}
{{- define "kubernetsn.networks" -}}
{{ toYaml (dict "networks" (ternary (list) .Values.networks .Values.operator.enabled)) }}
{{- end }}
{{- define "kubernetsn.clock.mode" -}}
{{ .Values.clock.mode }}
{{- end }}
{{- /* The DaemonSet of an entry of clock.ptp.interfaces. */}}
{{- define "kubernetsn.clock.name" -}}
ktsn-clock{{ with .name }}-{{ . }}{{ end }}
{{- end }}
{{- /* The DaemonSets of the chart. */}}
{{- define "kubernetsn.daemonsets" -}}
ktsnd,ktsnd-ovs,ktsn-agent,ktsn-agent-ovs
{{- range .Values.clock.ptp.interfaces | default (list dict) }},{{ include "kubernetsn.clock.name" . }}{{ end }}
{{- end }}
{{- /* Whether `helm test` has a test: it needs links, and the image tsnperf. */}}
{{- define "kubernetsn.testable" -}}
{{- if and .Values.operator.enabled (or (hasKey .Values.image.digests "tsnperf") (and .Values.image.tag (not .Values.image.digests))) }}true{{ end }}
{{- end }}
