// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
)

// maxLinks limits the links that are named.
const maxLinks = 10

// links checks the links that selects chooses, such as those of a node.
func (d *Doctor) links(ctx context.Context, where string, selects func(*v1alpha1.TSNLink) bool) {
	all, err := clusterreader.List[v1alpha1.TSNLink](ctx, d.Cluster, clusterreader.TSNLinks, "", "", "")
	if apierrors.IsNotFound(err) {
		return // a release without them
	}
	if err != nil {
		d.unreadable("links", err)
		return
	}
	up, down := 0, 0
	for i := range all {
		link := &all[i]
		if !selects(link) {
			continue
		}
		if meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionUp) {
			up++
			continue
		}
		if down++; down <= maxLinks {
			d.report(Bad, fmt.Sprintf("link %s/%s", link.Namespace, link.Name), "`ktsn trace --chain --pod "+link.Spec.Client.Namespace+"/"+link.Spec.Client.Pod+
				"` shows where packets stop", "%s", messageOf(link))
		}
	}
	switch {
	case down > maxLinks:
		d.report(Bad, where, "`kubectl get tsnlinks -A` lists them", "%d more of %d links are not up", down-maxLinks, up+down)
	case down == 0 && up > 0:
		d.report(OK, where, "", "all %d links are up", up)
	}
}

// messageOf says why a link is not up.
func messageOf(link *v1alpha1.TSNLink) string {
	ends := fmt.Sprintf("%s/%s to %s/%s", link.Spec.Client.Namespace, link.Spec.Client.Pod, link.Spec.Endpoint.Namespace, link.Spec.Endpoint.Pod)
	var reasons []string
	for _, name := range []string{v1alpha1.ConditionClientPlugged, v1alpha1.ConditionEndpointPlugged, v1alpha1.ConditionUp} {
		if condition := meta.FindStatusCondition(link.Status.Conditions, name); condition != nil && condition.Status != metav1.ConditionTrue {
			reasons = append(reasons, name+": "+condition.Message)
		}
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "no agent has reported it; check that ktsn-agent runs on node "+link.Spec.Client.Node)
	}
	return "from " + ends + " is not up; " + strings.Join(reasons, "; ")
}

// everyLink selects all links.
func everyLink(*v1alpha1.TSNLink) bool { return true }

// onNode selects the links with an end on a node.
func onNode(name string) func(*v1alpha1.TSNLink) bool {
	return func(link *v1alpha1.TSNLink) bool {
		return link.Spec.Client.Node == name || link.Spec.Endpoint.Node == name
	}
}
