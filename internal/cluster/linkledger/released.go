// SPDX-License-Identifier: Apache-2.0

package linkledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// release has the resources of a link that is deleted, or about to be.
type release struct {
	VNI       int32     `json:"vni"`
	Addresses []string  `json:"addresses"`
	At        time.Time `json:"at"`
	// Client identifies the client of the link, as ClientOf returns it.
	Client string `json:"client,omitempty"`
}

// link returns a link with only these resources.
func (r *release) link() v1alpha1.TSNLink {
	return v1alpha1.TSNLink{Spec: v1alpha1.TSNLinkSpec{VNI: r.VNI, Client: v1alpha1.LinkEnd{Addresses: r.Addresses}}}
}

const (
	// storeKey is the key of the releases in the ConfigMap.
	storeKey = "released"
	// maxStored limits the stored releases: an object of the API server has at most one mebibyte.
	maxStored = 5000
)

// Store is a ConfigMap with recently released resources, which a new maker of links reads at startup.
type Store struct {
	Client client.Client
	// Live reads past the cache, which does not have the ConfigMap.
	Live  client.Reader
	At    types.NamespacedName
	Owner client.FieldOwner
}

func (s *Store) read(ctx context.Context) (map[types.UID]release, error) {
	var kept corev1.ConfigMap
	err := s.Live.Get(ctx, s.At, &kept)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the released numbers of links: %w", err)
	}
	all := map[types.UID]release{}
	if text := kept.Data[storeKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil, fmt.Errorf("read the released numbers of links: ConfigMap %s: %w; delete it half a minute after the last link is gone", s.At, err)
		}
	}
	return all, nil
}

func (s *Store) write(ctx context.Context, all map[types.UID]release) error {
	text, err := json.Marshal(newest(all, maxStored))
	if err != nil {
		return fmt.Errorf("write the released numbers of links: %w", err)
	}
	err = s.Client.Apply(ctx, applycorev1.ConfigMap(s.At.Name, s.At.Namespace).WithData(map[string]string{storeKey: string(text)}), s.Owner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write the released numbers of links: %w", err)
	}
	return nil
}

// newest returns the newest releases, limit at most.
func newest(all map[types.UID]release, limit int) map[types.UID]release {
	if len(all) <= limit {
		return all
	}
	byAge := slices.SortedFunc(maps.Keys(all), func(a, b types.UID) int { return all[b].At.Compare(all[a].At) })
	kept := make(map[types.UID]release, limit)
	for _, uid := range byAge[:limit] {
		kept[uid] = all[uid]
	}
	return kept
}

// List returns the current links, and the recently deleted ones with only VNI and addresses.
func (l *Ledger) List(ctx context.Context, cached []v1alpha1.TSNLink) (links, released []v1alpha1.TSNLink, err error) {
	if err := l.load(ctx); err != nil {
		return nil, nil, err
	}
	links = l.merge(cached)
	for _, release := range l.released {
		if l.now().Sub(release.At) < ReleaseRetention {
			released = append(released, release.link())
		}
	}
	return links, released, nil
}

// load reads the stored releases once.
func (l *Ledger) load(ctx context.Context) error {
	if l.loaded {
		return nil
	}
	before, err := l.store.read(ctx)
	if err != nil {
		return err
	}
	for uid, release := range before {
		if release.At.After(l.now()) {
			release.At = l.now() // another machine's clock
			before[uid] = release
		}
	}
	maps.Copy(l.released, before)
	l.loaded = true
	return nil
}

// Release stores the resources of links that will be deleted, and those that trackReleased found, so that they are not allocated too early.
// Call it before a link is deleted or created.
func (l *Ledger) Release(ctx context.Context, links ...*v1alpha1.TSNLink) error {
	for _, link := range links {
		l.release(link)
	}
	if !l.unsaved {
		return nil
	}
	if err := l.store.write(ctx, l.released); err != nil {
		return err
	}
	l.unsaved = false
	return nil
}

// NextFree returns when the first released VNI can be reused, 0 if there is none.
func (l *Ledger) NextFree() time.Duration {
	var first time.Duration
	for _, release := range l.released {
		if left := ReleaseRetention - l.now().Sub(release.At); left > 0 && (first == 0 || left < first) {
			first = left
		}
	}
	return first
}
