// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"encoding/json"
	"strings"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
)

// Report is a cluster's report about an object, as Karmada has collected it. Status is not trusted.
type Report[S any] struct {
	Applied bool
	Message string
	// HasStatus: there is a status. Karmada has none of a cluster where its last change failed, although the object
	// exists there.
	HasStatus bool
	Status    S
}

// Reports returns the reports of all clusters by name.
func Reports[S any](status *workv1alpha2.ResourceBindingStatus) map[string]Report[S] {
	reports := map[string]Report[S]{}
	for i := range status.AggregatedStatus {
		reports[status.AggregatedStatus[i].ClusterName] = newReport[S](&status.AggregatedStatus[i])
	}
	return reports
}

func newReport[S any](item *workv1alpha2.AggregatedStatusItem) Report[S] {
	report := Report[S]{Applied: item.Applied, Message: item.AppliedMessage}
	var fields map[string]json.RawMessage
	if item.Status == nil || json.Unmarshal(item.Status.Raw, &fields) == nil && len(fields) == 0 {
		return report
	}
	var status S
	if json.Unmarshal(item.Status.Raw, &status) != nil {
		report.Message = "its status cannot be read"
		return report
	}
	report.HasStatus, report.Status = true, status
	return report
}

// BindingName returns the name of Karmada's binding for an object.
func BindingName(kind, name string) string {
	return strings.ToLower(strings.ReplaceAll(name, ":", ".") + "-" + kind)
}
