// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// full is one cluster with many clients and another one with an endpoint.
type full struct {
	*fleet
	clients []tsn.ServicePod
}

func newFull(t *testing.T, count int, linkCIDR string) *full {
	t.Helper()
	c := &full{fleet: newFleet(t, rand.New(rand.NewPCG(1, 1)))}
	c.clusters = c.clusters[:2]
	c.service.Spec.IPv4.LinkCIDR, c.service.Spec.Limits = linkCIDR, nil
	for number := range count {
		c.clients = append(c.clients, tsn.ServicePod{Namespace: "ns", Pod: fmt.Sprintf("pod%04d", number), UID: fmt.Sprintf("uid%d", number), Node: "n0",
			NodeAddress: "192.0.2.1", Interface: "bus0"})
	}
	offer := tsn.ServicePod{Namespace: "ns", Pod: "plc", UID: "plc", Node: "n0", NodeAddress: "192.0.3.1", Interface: "line"}
	c.reports["c1"] = report{Applied: true, Told: true, Status: tsn.TSNServiceStatus{Offers: []tsn.ServicePod{offer}}}
	return c
}

// say has the cluster say what its operator does: clients without a link first.
func (c *full) say() {
	linked := map[string]bool{}
	var status tsn.TSNServiceStatus
	for i := range c.links {
		uid := c.links[i].Spec.Client.UID
		linked[uid] = true
		if !slices.ContainsFunc(c.clients, func(pod tsn.ServicePod) bool { return pod.UID == uid }) {
			status.Left = append(status.Left, uid)
		}
	}
	for _, which := range []bool{false, true} {
		for _, pod := range c.clients {
			if linked[pod.UID] == which && len(status.Wants) < tsn.MaxServicePods {
				status.Wants = append(status.Wants, pod)
			}
		}
	}
	c.reports["c0"] = report{Applied: true, Told: true, Status: status}
}

// rounds lets both sides go on.
func (c *full) rounds() (found []spread.Finding) {
	for range 6 {
		c.say()
		found = c.round().found
	}
	return found
}

func (c *full) isLinked(pod *tsn.ServicePod) bool {
	return slices.ContainsFunc(c.links, func(link tsn.TSNLink) bool { return link.Spec.Client.UID == pod.UID })
}

func TestMoreClientsAreLinkedThanAStatusNames(t *testing.T) {
	const many = tsn.MaxServicePods + 50
	c := newFull(t, many, "10.60.0.0/12")
	c.rounds()
	if len(c.links) != many {
		t.Fatalf("%d of %d clients are linked", len(c.links), many)
	}
	for _, at := range []int{0, 120, many - 3} {
		gone := c.clients[at]
		c.clients = slices.Delete(c.clients, at, at+1)
		c.rounds()
		if c.isLinked(&gone) || len(c.links) != len(c.clients) {
			t.Errorf("%s has gone, and %d of %d clients are linked", gone.Pod, len(c.links), len(c.clients))
		}
	}
	// Silence and a list that is full remove nothing.
	c.reports["c0"] = report{Applied: true}
	if made := c.round(); len(made.remove) > 0 {
		t.Errorf("removed %s: %s", made.remove[0].Link.Name, made.remove[0].Why)
	}
}

func TestAClusterThatNamesClientsThatThereAreNotLeavesRoomForOthers(t *testing.T) {
	c := newFull(t, 150, "10.60.0.0/20") // of which the hub has 32 links
	found := c.rounds()
	if len(c.links) != 16 {
		t.Errorf("the cluster has %d links, and its share is 16", len(c.links))
	}
	at := slices.IndexFunc(found, func(one spread.Finding) bool { return one.Reason == reasonShareUsedUp })
	if at < 0 || !strings.Contains(found[at].Text, "134 more clients of cluster c0 wait: 16 of its clients are linked") {
		t.Errorf("found is %+v", found)
	}
	honest := c.reports["c1"]
	want := tsn.ServicePod{Namespace: "ns", Pod: "arm", UID: "arm", Node: "n0", NodeAddress: "192.0.3.1", Interface: "bus0"}
	honest.Status.Wants = []tsn.ServicePod{want}
	honest.Status.Offers[0].Links = 0
	c.reports["c1"] = honest
	c.rounds()
	if !c.isLinked(&want) {
		t.Error("the client of the other cluster is not linked")
	}
}
