// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"encoding/json"
	"strings"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
)

// Report is what a cluster says of an object, as Karmada has brought it up. Status is another's word.
type Report[S any] struct {
	Applied bool
	Message string
	// Told : there is a status. Karmada has none of a cluster where its last change failed, although the object is there.
	Told   bool
	Status S
}

// Reports are those of all clusters, by name.
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
	report.Told, report.Status = true, status
	return report
}

// BindingName is that of what Karmada makes of an object.
func BindingName(kind, name string) string {
	return strings.ToLower(strings.ReplaceAll(name, ":", ".") + "-" + kind)
}
