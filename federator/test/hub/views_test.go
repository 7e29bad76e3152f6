// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestPodsOfUnreachableClustersAreCounted(t *testing.T) {
	f, token, cluster, namespace := startFederator(t), newAdmin(t), newCluster(t, "Pull"), newNamespace(t)
	startKarmada(t, namespace, cluster)
	f.must(token, "POST", "/api/v1/workloads", federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web"), Clusters: []string{cluster}}, nil)
	var pods federation.Pods
	eventually(t, "the pods are counted", func() bool {
		f.must(token, "GET", "/api/v1/pods?namespace="+namespace+"&workload=web", nil, &pods)
		return len(pods.Unseen) == 1 && pods.Unseen[0].Ready != nil && *pods.Unseen[0].Ready == 2 && *pods.Unseen[0].Replicas == 2
	})
	if len(pods.Items) > 0 || !strings.Contains(pods.Unseen[0].Reason, "does not reach the cluster") {
		t.Errorf("told %+v", pods)
	}
	f.must(token, "GET", "/api/v1/pods?namespace="+namespace+"&workload=other", nil, &pods)
	if len(pods.Items)+len(pods.Unseen) > 0 {
		t.Errorf("of a workload that is not, told %+v", pods)
	}
	f.refused(token, "GET", "/api/v1/pods?nmaespace=a", nil, http.StatusUnprocessableEntity, "nmaespace")
}

func TestPodsAreListedFromReports(t *testing.T) {
	f, token, cluster, namespace := startFederator(t), newAdmin(t), newCluster(t, "Pull"), newNamespace(t)
	k := startKarmada(t, namespace, cluster)
	k.say(cluster, `{"total":201,"ready":1,"pods":[{"name":"web-1","node":"n1","phase":"Running","ready":true,"addresses":["10.0.0.7"],
		"networks":[{"network":"line","interface":"tsn0","addresses":["10.42.16.7"]}],
		"links":[{"service":"bus","client":true,"interface":"bus0","addresses":["10.200.0.0/31"],"peer":"west/ns/plc","up":true}],"containers":[{"name":"main","image":"i","state":"Running"}]}]}`)
	f.must(token, "POST", "/api/v1/workloads", federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: deployment("web"), Clusters: []string{cluster}}, nil)
	var pods federation.Pods
	eventually(t, "the pod is told", func() bool {
		f.must(token, "GET", "/api/v1/pods?namespace="+namespace, nil, &pods)
		return len(pods.Items) == 1
	})
	got, _ := json.Marshal(pods.Items[0])
	want := `{"workload":"` + namespace + `/web","cluster":"` + cluster + `","name":"web-1","node":"n1","phase":"Running","ready":true,"addresses":["10.0.0.7"],` +
		`"networks":[{"network":"line","interface":"tsn0","addresses":["10.42.16.7"]}],` +
		`"links":[{"service":"bus","interface":"bus0","addresses":["10.200.0.0/31"],"peer":"west/ns/plc","up":true}],"containers":[{"name":"main","image":"i","state":"Running"}]}`
	if string(got) != want {
		t.Errorf("told %s, want %s", got, want)
	}
	if len(pods.Unseen) != 1 || !strings.Contains(pods.Unseen[0].Reason, "200 more are there") {
		t.Errorf("of the others told %+v", pods.Unseen)
	}
}

func TestEventsAreListedNewestFirst(t *testing.T) {
	f, token, namespace := startFederator(t), newAdmin(t), newNamespace(t)
	for i, reason := range []string{"Second", "Third", "First"} {
		at := metav1.NewTime(time.Now().Add(-time.Duration([]int{2, 1, 3}[i]) * time.Minute))
		create(t, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ToLower(reason)}, Reason: reason, Type: "Normal", LastTimestamp: at,
			InvolvedObject: corev1.ObjectReference{Kind: "ResourceBinding", Namespace: namespace, Name: "web-deployment"}})
	}
	var events federation.Events
	f.must(token, "GET", "/api/v1/events?namespace="+namespace, nil, &events)
	var reasons []string
	for _, event := range events.Items {
		reasons = append(reasons, event.Reason+" "+event.Object)
	}
	if want := []string{"Third ResourceBinding/web-deployment", "Second ResourceBinding/web-deployment", "First ResourceBinding/web-deployment"}; !slices.Equal(reasons, want) {
		t.Errorf("told %v", reasons)
	}
	f.refused(newUser(t, namespace, ofWorkload, nil), "GET", "/api/v1/events?namespace="+namespace, nil, http.StatusForbidden, "events")
}

// watching reads changes until the test ends.
func watching(t *testing.T, f *running, token, query string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.address+"/api/v1/watch"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	reported := make(chan string, 1000)
	go func() {
		defer close(reported)
		scanner := bufio.NewScanner(answer.Body)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if data, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
				reported <- data
			}
		}
	}()
	t.Cleanup(func() { cancel(); answer.Body.Close() })
	return reported
}

// await reads changes until one matches.
func await(t *testing.T, reported <-chan string, what string, matches func(*federation.Change) bool) {
	t.Helper()
	end := time.After(20 * time.Second)
	for {
		select {
		case <-end:
			t.Fatalf("waited 20 s in vain for %s", what)
		case text, more := <-reported:
			if !more {
				t.Fatalf("the watch ended before %s", what)
			}
			var change federation.Change
			if err := json.Unmarshal([]byte(text), &change); err != nil {
				t.Fatal(err)
			}
			if change.Kind == "" {
				t.Fatalf("told %s before %s", text, what)
			}
			if matches(&change) {
				return
			}
		}
	}
}

func TestWatchSendsObjectsAndChanges(t *testing.T) {
	f, token, cluster, namespace := startFederator(t), newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	reported := watching(t, f, token, "?namespace="+namespace)
	await(t, reported, "the cluster", func(c *federation.Change) bool {
		return c.Kind == "Cluster" && c.Name == cluster && c.Change == "Added" && c.Cluster.Ready == "True"
	})
	f.must(token, "POST", "/api/v1/workloads", federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: configMap("c"), Clusters: []string{cluster}}, nil)
	await(t, reported, "the workload", func(c *federation.Change) bool {
		return c.Kind == "Workload" && c.Name == "web" && c.Namespace == namespace && slices.Equal(c.Workload.Clusters, []string{cluster})
	})
	f.must(token, "DELETE", "/api/v1/workloads/"+namespace+"/web", nil, nil)
	await(t, reported, "its end", func(c *federation.Change) bool {
		return c.Kind == "Workload" && c.Name == "web" && c.Change == "Deleted"
	})
	f.stop()
	for range reported { // until the federator ends the watch
		continue
	}
}

func TestWatchNeedsRights(t *testing.T) {
	f := startFederator(t)
	reported := watching(t, f, newUser(t, newNamespace(t), nil, seesClusters), "")
	last := ""
	for text := range reported {
		last = text
	}
	var problem federation.Problem
	if err := json.Unmarshal([]byte(last), &problem); err != nil || problem.Status != http.StatusForbidden || !strings.Contains(problem.Detail, "propagationpolicies") {
		t.Errorf("told %s: %v", last, err)
	}
}
