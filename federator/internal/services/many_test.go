// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
)

// full has one cluster with many clients and another one with an endpoint.
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
	c.reports["c1"] = report{Applied: true, HasStatus: true, Status: tsn.TSNServiceStatus{Offers: []tsn.ServicePod{offer}}}
	return c
}

// say sets the cluster's report as its operator would: clients without a link first.
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
	c.reports["c0"] = report{Applied: true, HasStatus: true, Status: status}
}

// rounds lets both sides continue until nothing changes.
func (c *full) rounds() (findings []spread.Finding) {
	for range 6 {
		c.say()
		findings = c.round().findings
	}
	return findings
}

func (c *full) isLinked(pod *tsn.ServicePod) bool {
	return slices.ContainsFunc(c.links, func(link tsn.TSNLink) bool { return link.Spec.Client.UID == pod.UID })
}

func TestMoreClientsThanStatusNames(t *testing.T) {
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
	// Silence and a truncated list remove nothing.
	c.reports["c0"] = report{Applied: true}
	if pairing := c.round(); len(pairing.remove) > 0 {
		t.Errorf("removed %s: %s", pairing.remove[0].Link.Name, pairing.remove[0].Why)
	}
}

func TestFalseClientsLeaveRoom(t *testing.T) {
	c := newFull(t, 150, "10.60.0.0/20") // the hub has 32 links of it
	findings := c.rounds()
	if len(c.links) != 30 {
		t.Errorf("the cluster has %d links, and its share is all but what is kept for the other one", len(c.links))
	}
	at := slices.IndexFunc(findings, func(finding spread.Finding) bool { return finding.Reason == reasonShareUsedUp })
	if at < 0 || !strings.Contains(findings[at].Text, "120 more clients of cluster c0 wait: 30 of its clients are linked") {
		t.Errorf("found is %+v", findings)
	}
	arms := c.others(3)
	c.rounds()
	if !c.isLinked(&arms[0]) || !c.isLinked(&arms[1]) || c.isLinked(&arms[2]) {
		t.Error("two clients of the other cluster are linked, and no more, before one of the first one's has gone")
	}
	c.clients = slices.DeleteFunc(c.clients, func(pod tsn.ServicePod) bool { return pod.UID == "uid7" })
	c.rounds()
	c.later()
	if !c.isLinked(&arms[2]) || len(c.links) != 32 {
		t.Errorf("the room that is free goes to who has less than a fair share: %t, of %d links", c.isLinked(&arms[2]), len(c.links))
	}
}

// others adds clients to the cluster with the endpoint.
func (c *full) others(count int) (pods []tsn.ServicePod) {
	for number := range count {
		name := fmt.Sprintf("arm%d", number)
		pods = append(pods, tsn.ServicePod{Namespace: "ns", Pod: name, UID: name, Node: "n0", NodeAddress: "192.0.3.1", Interface: "bus0"})
	}
	report := c.reports["c1"]
	report.Status.Wants = pods
	c.reports["c1"] = report
	return pods
}

// later advances the clock until released numbers are free.
func (c *full) later() {
	c.now = c.now.Add(linkledger.ReleaseRetention)
	c.rounds()
}

// newAboveShare returns a cluster that has more than its fair share of a room that is used up, while another cluster
// asks for some.
func newAboveShare(t *testing.T) *full {
	t.Helper()
	c := newFull(t, 30, "10.60.0.0/20")
	c.rounds()
	c.others(16)
	c.rounds()
	if owner := c.linksBy(); owner["c0"] != 30 || owner["c1"] != 2 {
		t.Fatalf("there are links %v", owner)
	}
	return c
}

func (c *full) linksBy() map[string]int {
	owner := map[string]int{}
	for i := range c.links {
		owner[c.links[i].Spec.Client.Cluster]++
	}
	return owner
}

func TestLinksAboveShareAreReplaced(t *testing.T) {
	c := newAboveShare(t)
	report := c.reports["c1"]
	report.Status.Offers = []tsn.ServicePod{{Namespace: "ns", Pod: "next", UID: "next", Node: "n0", NodeAddress: "192.0.3.1", Interface: "line"}}
	c.reports["c1"] = report
	c.rounds()
	c.later()
	if owner := c.linksBy(); owner["c0"] != 30 || owner["c1"] != 2 {
		t.Errorf("there are links %v", owner)
	}
	for i := range c.links {
		if c.links[i].Spec.Endpoint.Pod != "next" {
			t.Errorf("%s is linked to %s", c.links[i].Spec.Client.Pod, c.links[i].Spec.Endpoint.Pod)
		}
	}
}

func TestPodWithSameNameInheritsPlace(t *testing.T) {
	for name, gap := range map[string]bool{"at once": false, "a while after it": true} {
		t.Run(name, func(t *testing.T) {
			c := newAboveShare(t)
			next := c.clients[5]
			next.UID = "next"
			if gap {
				c.clients = slices.Delete(c.clients, 5, 6)
				c.rounds()
				c.now = c.now.Add(linkledger.ReleaseRetention / 2)
				c.clients = append(c.clients, next)
			} else {
				c.clients[5] = next
			}
			c.rounds()
			c.later()
			if owner := c.linksBy(); !c.isLinked(&next) || owner["c0"] != 30 || owner["c1"] != 2 {
				t.Errorf("there are links %v, and the next pod has one: %t", owner, c.isLinked(&next))
			}
		})
	}
}

func TestNewPodWaitsAboveShare(t *testing.T) {
	c := newAboveShare(t)
	next := c.clients[5]
	next.UID, next.Pod = "next", "zzz"
	c.clients[5] = next
	c.rounds()
	c.later()
	if owner := c.linksBy(); owner["c0"] != 29 || owner["c1"] != 3 {
		t.Errorf("there are links %v", owner)
	}
}

func TestClientsKeepTheirLinks(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			c := newFull(t, 0, "10.60.0.0/24") // the hub has 8 links of it
			source := rand.New(rand.NewPCG(seed, 31))
			for step := range 60 {
				had := map[string]bool{}
				for i := range c.links {
					had[c.links[i].Spec.Client.UID] = true
				}
				c.change(source, step)
				for _, report := range c.reports {
					for _, pod := range report.Status.Wants {
						if had[pod.UID] && !c.isLinked(&pod) {
							t.Fatalf("step %d: %s has lost its link", step, pod.Pod)
						}
					}
				}
				if len(c.links) > 8 {
					t.Fatalf("step %d: there are %d links", step, len(c.links))
				}
			}
		})
	}
}

// change adds and removes clients in both clusters.
func (c *full) change(source *rand.Rand, step int) {
	for number, cluster := range []string{"c0", "c1"} {
		report := c.reports[cluster]
		wants := slices.Clone(report.Status.Wants)
		for range source.IntN(4) {
			name := fmt.Sprintf("pod%d-%d-%d", number, step, source.IntN(9))
			if !slices.ContainsFunc(wants, func(pod tsn.ServicePod) bool { return pod.UID == name }) {
				wants = append(wants, tsn.ServicePod{Namespace: "ns", Pod: name, UID: name, Node: "n0", NodeAddress: fmt.Sprintf("192.0.%d.1", 2+number), Interface: "bus0"})
			}
		}
		for range source.IntN(4) {
			if len(wants) > 0 {
				at := source.IntN(len(wants))
				wants = slices.Delete(wants, at, at+1)
			}
		}
		report.HasStatus, report.Applied, report.Status.Wants = true, true, wants
		c.reports[cluster] = report
	}
	c.now = c.now.Add(time.Duration(source.IntN(20)) * time.Second)
	for range 2 {
		c.round()
	}
}
