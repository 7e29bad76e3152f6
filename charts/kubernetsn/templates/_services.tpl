{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{- /* The chart federator has a copy, by scripts/generate.sh. */}}
{{- /* A list of ranges, in CEL */}}
{{- define "services.cidrs" -}}
[{{ range $i, $cidr := . }}{{ if $i }}, {{ end }}cidr('{{ $cidr }}'){{ end }}]
{{- end }}
{{- /* The policy for TSNServices: its name and labels, the name of the chart, and the values links. */}}
{{- define "services.policy" -}}
# A user who may create TSNServices in one namespace gives pods, also those of other namespaces, addresses and routes. Both lie in the ranges that the values
# allow, and apart from those that are reserved. A value that an object had before stays allowed, so that a change of the values keeps nobody from changing the rest.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels: {{- .labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [kubernetsn.io], apiVersions: ["*"], resources: [tsnservices], operations: [CREATE, UPDATE]}
  variables:
    # Text that is no range is left to the definition of TSNService, which is checked after this policy.
    - name: ranges
      expression: >-
        [object.spec.?ipv4.?linkCIDR.orValue(''), object.spec.?ipv6.?linkCIDR.orValue('')].filter(r, isCIDR(r) && (oldObject == null ||
        r != oldObject.spec.?ipv4.?linkCIDR.orValue('') && r != oldObject.spec.?ipv6.?linkCIDR.orValue('')))
    - name: routes
      expression: >-
        object.spec.?routes.orValue([]).map(r, r.to).filter(r, isCIDR(r) && (oldObject == null || !oldObject.spec.?routes.orValue([]).exists(was, was.to == r)))
    - name: allowedRanges
      expression: {{ include "services.cidrs" .links.allowedRanges | quote }}
    - name: allowedRoutes
      expression: {{ include "services.cidrs" .links.allowedRoutes | quote }}
    - name: reserved
      expression: {{ include "services.cidrs" .links.reservedRanges | quote }}
  validations:
    - expression: variables.ranges.all(r, variables.allowedRanges.exists(allowed, allowed.containsCIDR(cidr(r))))
      messageExpression: >-
        'linkCIDR ' + variables.ranges.filter(r, !variables.allowedRanges.exists(allowed, allowed.containsCIDR(cidr(r))))[0] +
        {{ printf "' is in none of the ranges that links may have here (value links.allowedRanges of the chart %s: %s); take one of these'" .chart (join ", " .links.allowedRanges) }}
    - expression: variables.routes.all(r, variables.allowedRoutes.exists(allowed, allowed.containsCIDR(cidr(r))))
      messageExpression: >-
        'route ' + variables.routes.filter(r, !variables.allowedRoutes.exists(allowed, allowed.containsCIDR(cidr(r))))[0] +
        {{ printf "' is in none of the ranges to which links may have routes here (value links.allowedRoutes of the chart %s: %s); take one of these'" .chart (join ", " .links.allowedRoutes) }}
    - expression: >-
        (variables.ranges + variables.routes).all(r, variables.reserved.all(own, !own.containsCIDR(cidr(r)) && !cidr(r).containsCIDR(own)))
      messageExpression: >-
        (variables.ranges + variables.routes).filter(r, !variables.reserved.all(own, !own.containsCIDR(cidr(r)) && !cidr(r).containsCIDR(own)))[0] +
        {{ printf "' has addresses that are reserved here (value links.reservedRanges of the chart %s: %s); take another range'" .chart (join ", " .links.reservedRanges) }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- .labels | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}
