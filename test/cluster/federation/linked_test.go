// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

var (
	services  = v1alpha1.GroupVersion.WithResource("tsnservices")
	linkCount = 300
)

// service returns a TSNService of the hub on the first two members.
func service(namespace, name, linkCIDR string) string {
	return fmt.Sprintf(`
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNService
metadata: {namespace: %s, name: %s}
spec: {ipv4: {linkCIDR: %s}, clusters: [%s, %s]}
`, namespace, name, linkCIDR, members[0].as, members[1].as)
}

// linkedPod returns a pod with a link label that runs a program of the image.
func linkedPod(namespace, name, label, value string, arguments ...string) string {
	encoded, _ := json.Marshal(arguments) // texts
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, labels: {%s: %s}}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  restartPolicy: Never
  containers:
    - {name: tsnperf, image: "localhost/kubernetsn/tsnperf:dev", imagePullPolicy: Never, args: %s}
`, namespace, name, label, value, encoded)
}

// links returns the links of a service in a place.
func (p *place) links(ctx context.Context, namespace, service string) ([]v1alpha1.TSNLink, error) {
	links, err := kube.List[v1alpha1.TSNLink](ctx, p.dynamic, "tsnlinks", namespace, metav1.ListOptions{FieldSelector: "spec.service=" + service})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return links, nil
}

// linkless returns a question for await: whether a place has no links in a namespace.
func (p *place) linkless(namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		links, err := kube.List[v1alpha1.TSNLink](ctx, p.dynamic, "tsnlinks", namespace, metav1.ListOptions{})
		if err == nil && len(links) > 0 {
			err = fmt.Errorf("%s has %d links", p.Name, len(links))
		}
		return err
	}
}

// linkedTo returns a question for await: whether the only client of a service has a link that is up to an endpoint in a
// cluster, as its own cluster sees it.
func (p *place) linkedTo(namespace, service string, other *place, link *v1alpha1.TSNLink) func(context.Context) error {
	return func(ctx context.Context) error {
		links, err := p.links(ctx, namespace, service)
		if err != nil {
			return err
		}
		for i := range links {
			if cluster := links[i].Spec.Endpoint.Cluster; cluster != other.as && (cluster != "" || p != other) {
				continue
			}
			if meta.IsStatusConditionTrue(links[i].Status.Conditions, v1alpha1.ConditionUp) {
				*link = links[i]
				return nil
			}
		}
		return fmt.Errorf("%s: no link of service %s to cluster %s is up: %+v", p.Name, service, other.as, links)
	}
}

// hasPart returns a question for await: whether a member has a service with a part of its range.
func (p *place) hasPart(namespace, service string) func(context.Context) error {
	return func(ctx context.Context) error {
		endpoint, err := kube.Get[v1alpha1.TSNService](ctx, p.dynamic, "tsnservices", namespace, service)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if endpoint.Spec.IPv4.Part == "" || endpoint.Spec.VNIs == nil || len(endpoint.Spec.Clusters) > 0 {
			return fmt.Errorf("%s has the service %+v", p.Name, endpoint.Spec)
		}
		return nil
	}
}

func TestLinksBetweenClusters(t *testing.T) {
	needCharts(t)
	ctx, f := needFederator(t)
	east, west := members[0], members[1]
	namespace := newNamespace(ctx, t)
	hub.apply(ctx, t, service(namespace, "plant", "10.60.0.0/16")+service(namespace, "report", "10.61.0.0/16")+secretService(namespace))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		for _, name := range []string{"plant", "report", "secret"} {
			for _, at := range append([]*place{hub}, members...) {
				if err := at.dynamic.Resource(services).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
					t.Errorf("%s: %v", at.Name, err)
				}
			}
		}
	})
	for _, member := range []*place{east, west} {
		await(ctx, t, member.hasPart(namespace, "plant"))
		await(ctx, t, member.hasPart(namespace, "report"))
		await(ctx, t, member.hasPart(namespace, "secret"))
	}
	l := &acrossClusters{f: f, namespace: namespace, east: east, west: west}
	t.Run("a client starts when its link to the other cluster is up", func(t *testing.T) { l.starts(ctx, t) })
	t.Run("timed messages go over a link", func(t *testing.T) { l.carries(ctx, t) })
	t.Run("a link that requires encryption says what it lacks", func(t *testing.T) { l.encrypts(ctx, t) })
	t.Run("an endpoint that comes nearby takes no client", func(t *testing.T) { l.stays(ctx, t) })
	t.Run("it takes the client whose endpoint has gone", func(t *testing.T) { l.heals(ctx, t) })
	t.Run("nothing is left of links", func(t *testing.T) { l.ends(ctx, t) })
}

// acrossClusters is the state that the parts of the test share.
type acrossClusters struct {
	f          *federator
	namespace  string
	east, west *place
	link       v1alpha1.TSNLink
}

// deploy deploys idling pods to a cluster, with a link option.
func (l *acrossClusters) deploy(ctx context.Context, name string, on *place, option, value string) {
	l.f.write(name+".yaml", deployment(l.namespace, name, 1))
	l.f.run(ctx, "deploy", l.namespace+"/"+name, "-f", filepath.Join(l.f.folder, name+".yaml"), "--clusters", on.as, option, value)
}

func (l *acrossClusters) starts(ctx context.Context, t *testing.T) {
	l.deploy(ctx, "plc", l.west, "--endpoint", "plant=line")
	await(ctx, t, l.west.runs(l.namespace, "plc", 1))
	took(t, "the client is ready after another", func() {
		l.deploy(ctx, "arm", l.east, "--client", "plant=bus0")
		await(ctx, t, l.east.runs(l.namespace, "arm", 1))
	})
	await(ctx, t, l.east.linkedTo(l.namespace, "plant", l.west, &l.link))
	t.Logf("the link was up %v after it was made", l.link.Status.Since.Sub(l.link.CreationTimestamp.Time).Round(time.Millisecond))
	await(ctx, t, func(ctx context.Context) error {
		output, err := l.f.try(ctx, "links", "plant", "-n", l.namespace)
		if err == nil && (!strings.Contains(output, "1 of 1 clients linked") || !strings.Contains(output, "  yes  ")) {
			err = fmt.Errorf("links says %s", output)
		}
		return err
	})
	t.Logf("links says:\n%s", l.f.run(ctx, "links", "plant", "-n", l.namespace))
	await(ctx, t, func(ctx context.Context) error {
		output, err := l.f.try(ctx, "where", l.namespace+"/arm")
		if err == nil && !strings.Contains(output, "plant bus0 to "+l.west.as+"/"+l.namespace+"/plc-") {
			err = fmt.Errorf("where says %s", output)
		}
		return err
	})
}

func (l *acrossClusters) carries(ctx context.Context, t *testing.T) {
	count := strconv.Itoa(linkCount)
	l.west.apply(ctx, t, linkedPod(l.namespace, "listener", "endpoint.kubernetsn.io/report", "from", "listener", "--bind", "0.0.0.0:7788", "--count", count, "--block",
		"--first-timeout", "90s", "--csv", "/dev/stdout", "--quiet"))
	// The endpoint of the first link of the hub's part.
	l.east.apply(ctx, t, linkedPod(l.namespace, "talker", "client.kubernetsn.io/report", "to", "talker", "--to", "10.61.0.1:7788", "--count", count, "--cycle", "2ms", "--lead", "1ms"))
	l.east.ended(ctx, t, l.namespace, "talker")
	arrived, early, err := arrivals(l.west.ended(ctx, t, l.namespace, "listener"))
	if err != nil || arrived != linkCount || early > 0 {
		t.Errorf("%d of %d messages arrived, %d of them early, %v", arrived, linkCount, early, err)
	}
	t.Logf("%d of %d messages arrived, %d of them early", arrived, linkCount, early)
}

// client returns the only client pod of plant.
func (l *acrossClusters) client(ctx context.Context, t *testing.T) *corev1.Pod {
	t.Helper()
	pods := l.east.pods(ctx, t, l.namespace, "arm")
	if len(pods) != 1 {
		t.Fatalf("%d pods of arm", len(pods))
	}
	return &pods[0]
}

func (l *acrossClusters) stays(ctx context.Context, t *testing.T) {
	l.deploy(ctx, "spare", l.east, "--endpoint", "plant=line")
	await(ctx, t, l.east.runs(l.namespace, "spare", 1))
	for range 10 {
		time.Sleep(time.Second)
		links, err := l.east.links(ctx, l.namespace, "plant")
		if err != nil || len(links) != 1 || links[0].UID != l.link.UID {
			t.Fatalf("the links are %+v, %v", links, err)
		}
	}
}

func (l *acrossClusters) heals(ctx context.Context, t *testing.T) {
	before := l.client(ctx, t)
	l.f.run(ctx, "delete", l.namespace+"/plc")
	took(t, "the client has another link after another", func() {
		await(ctx, t, l.east.linkedTo(l.namespace, "plant", l.east, &l.link))
	})
	if now := l.client(ctx, t); now.UID != before.UID || now.Status.ContainerStatuses[0].RestartCount != before.Status.ContainerStatuses[0].RestartCount {
		t.Errorf("the client was restarted: %+v", now.Status)
	}
	await(ctx, t, func(ctx context.Context) error {
		links, err := l.west.links(ctx, l.namespace, "plant")
		if err == nil && len(links) > 0 {
			err = fmt.Errorf("%s still has %+v", l.west.Name, links)
		}
		return err
	})
}

func (l *acrossClusters) ends(ctx context.Context, t *testing.T) {
	l.f.run(ctx, "delete", l.namespace+"/arm")
	l.f.run(ctx, "delete", l.namespace+"/spare")
	for name, member := range map[string]*place{"talker": l.east, "listener": l.west} {
		if err := member.client.CoreV1().Pods(l.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	for _, at := range []*place{hub, l.east, l.west} {
		await(ctx, t, at.linkless(l.namespace))
	}
}
