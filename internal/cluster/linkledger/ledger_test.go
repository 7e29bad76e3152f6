// SPDX-License-Identifier: Apache-2.0

package linkledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func aLink(uid types.UID, generation int64, routes ...string) v1alpha1.TSNLink {
	return v1alpha1.TSNLink{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid, Generation: generation},
		Spec:       v1alpha1.TSNLinkSpec{VNI: v1alpha1.FirstLinkVNI, Client: v1alpha1.LinkEnd{Routes: routes, Addresses: []string{string(uid)}}},
	}
}

// atOneTime is a clock that a test sets.
type atOneTime struct{ now time.Time }

func (a *atOneTime) Now() time.Time { return a.now }

func names(links []v1alpha1.TSNLink) string {
	var all []string
	for i := range links {
		all = append(all, links[i].Name+strings.Join(links[i].Spec.Client.Routes, ","))
	}
	return strings.Join(all, " ")
}

func TestListWithStaleCache(t *testing.T) {
	clock := &atOneTime{now: time.Unix(1000, 0)}
	l := New(aStore(t), clock.Now)
	old, link, changed := aLink("old", 1), aLink("made", 1), aLink("old", 2, "+route")
	for _, step := range []struct {
		what            string
		do              func()
		cached          []v1alpha1.TSNLink
		links, released string
	}{
		{"one that the cache has", func() {}, []v1alpha1.TSNLink{old}, "old", ""},
		{"one that was made", func() { l.RecordWrite(&link) }, []v1alpha1.TSNLink{old}, "old made", ""},
		{"one that was changed", func() { l.RecordWrite(&changed) }, []v1alpha1.TSNLink{old}, "old+route made", ""},
		{"when the cache knows both", func() {}, []v1alpha1.TSNLink{changed, link}, "old+route made", ""},
		{"one that was deleted", func() { l.RecordDelete("old") }, []v1alpha1.TSNLink{changed, link}, "made", "old"},
		{"when the cache knows that", func() {}, []v1alpha1.TSNLink{link}, "made", "old"},
		{"one that somebody else deleted", func() {}, nil, "", "made old"},
		{"after some time", func() { clock.now = clock.now.Add(ReleaseRetention) }, nil, "", ""},
		{"one that the cache never knows of", func() { l.RecordWrite(&link) }, nil, "made", ""},
		{"after more time", func() { clock.now = clock.now.Add(cacheSyncTimeout) }, nil, "", "made"},
	} {
		step.do()
		links, released, err := l.List(t.Context(), step.cached)
		if err != nil || names(links) != step.links || addresses(released) != step.released {
			t.Errorf("%s: there are %q, released %q; want %q, %q: %v", step.what, names(links), addresses(released), step.links, step.released, err)
		}
	}
}

// addresses are those of links, sorted.
func addresses(links []v1alpha1.TSNLink) string {
	var all []string
	for i := range links {
		all = append(all, links[i].Spec.Client.Addresses...)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// aStore is one in an API server of its own.
func aStore(t *testing.T) *Store {
	t.Helper()
	server := fake.NewClientBuilder().Build()
	return &Store{Client: server, Live: server, At: types.NamespacedName{Namespace: "ns", Name: "released"}, Owner: client.FieldOwner("test")}
}

func TestReleasesAfterRestart(t *testing.T) {
	clock, store := &atOneTime{now: time.Unix(1000, 0)}, aStore(t)
	first := New(store, clock.Now)
	link, two, three := aLink("one", 1), aLink("two", 1), aLink("three", 1)
	look := func(l *Ledger, want string, cached ...v1alpha1.TSNLink) {
		t.Helper()
		_, released, err := l.List(t.Context(), cached)
		if err != nil || addresses(released) != want {
			t.Errorf("released are %q, want %q: %v", addresses(released), want, err)
		}
		for i := range released {
			if released[i].Spec.VNI != v1alpha1.FirstLinkVNI {
				t.Errorf("number %d was released", released[i].Spec.VNI)
			}
		}
	}
	look(first, "", link, two, three)
	look(first, "three", link, two) // by somebody else
	if err := first.Release(t.Context(), &link); err != nil {
		t.Fatal(err)
	}
	// It is killed before it has deleted the link, or after.
	look(New(store, clock.Now), "one three", link, two)
	clock.now = clock.now.Add(ReleaseRetention / 2)
	look(New(store, clock.Now), "one three", two)
	clock.now = clock.now.Add(-ReleaseRetention) // another machine's clock is behind
	second := New(store, clock.Now)
	look(second, "one three", two)
	clock.now = clock.now.Add(ReleaseRetention)
	look(second, "", two)
	look(New(store, clock.Now), "one three", two) // the first one's clock says that it was half the time ago
	clock.now = clock.now.Add(ReleaseRetention / 2)
	look(New(store, clock.Now), "", two)
}

func TestReleaseFailsWithoutStore(t *testing.T) {
	store := aStore(t)
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "released"}, Data: map[string]string{storeKey: "{"}}
	if err := store.Client.Create(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	l := New(store, time.Now)
	if _, _, err := l.List(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "ConfigMap ns/released") {
		t.Errorf("got %v", err)
	}
}

func TestStoreLimit(t *testing.T) {
	all, now := map[types.UID]release{}, time.Unix(1000, 0)
	for number := range maxStored + 500 {
		uid := types.UID(fmt.Sprintf("11111111-2222-3333-4444-%012d", number))
		all[uid] = release{Client: ClientOf("ns", "plant", "east", "ns", string(uid)), VNI: v1alpha1.LastLinkVNI, At: now.Add(time.Duration(number)), Addresses: []string{"255.255.255.254/31", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"}}
	}
	kept := newest(all, maxStored)
	text, err := json.Marshal(kept)
	if err != nil || len(text) > 1<<20 || len(kept) != maxStored {
		t.Errorf("%d are kept in %d bytes: %v", len(kept), len(text), err)
	}
	if _, has := kept["11111111-2222-3333-4444-000000000499"]; has {
		t.Error("the older ones are kept")
	}
}

func TestNextFree(t *testing.T) {
	clock := &atOneTime{now: time.Unix(1000, 0)}
	l := New(aStore(t), clock.Now)
	if l.NextFree() != 0 {
		t.Errorf("nothing was released, and the first is free after %v", l.NextFree())
	}
	for _, uid := range []types.UID{"one", "two"} {
		link := aLink(uid, 1)
		if err := l.Release(t.Context(), &link); err != nil {
			t.Fatal(err)
		}
		clock.now = clock.now.Add(10 * time.Second)
	}
	if l.NextFree() != 10*time.Second {
		t.Errorf("the first is free after %v", l.NextFree())
	}
}

func TestClients(t *testing.T) {
	clock, store := &atOneTime{now: time.Unix(1000, 0)}, aStore(t)
	first := New(store, clock.Now)
	link := aLink("one", 1)
	link.Spec.Service, link.Spec.Client = "plant", v1alpha1.LinkEnd{Cluster: "east", Namespace: "ns", Pod: "arm", Addresses: []string{"one"}}
	if err := first.Release(t.Context(), &link); err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(ReleaseRetention)
	next := New(store, clock.Now) // after a restart
	_, released, err := next.List(t.Context(), nil)
	if err != nil || len(released) > 0 || next.NextFree() != 0 {
		t.Fatalf("released are %v, and the next is free after %v: %v", released, next.NextFree(), err)
	}
	for pod, want := range map[string]bool{"arm": true, "leg": false} {
		if has := next.Clients()[ClientOf("ns", "plant", "east", "ns", pod)]; has != want {
			t.Errorf("%s had a link a moment ago: %t", pod, has)
		}
	}
	clock.now = clock.now.Add(clientRetention - ReleaseRetention)
	if _, _, err := next.List(t.Context(), nil); err != nil || len(next.Clients()) > 0 {
		t.Errorf("known are %v: %v", next.Clients(), err)
	}
}
