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

// release is what a link had that is gone, or about to go.
type release struct {
	VNI       int32     `json:"vni"`
	Addresses []string  `json:"addresses"`
	At        time.Time `json:"at"`
	// Client identifies the client of the link, as ClientOf returns it.
	Client string `json:"client,omitempty"`
}

// link has of a link what others may not have.
func (r *release) link() v1alpha1.TSNLink {
	return v1alpha1.TSNLink{Spec: v1alpha1.TSNLinkSpec{VNI: r.VNI, Client: v1alpha1.LinkEnd{Addresses: r.Addresses}}}
}

const (
	// storeKey is where the releases are in the ConfigMap.
	storeKey = "released"
	// storedAtMost bounds them: an object of the API server has at most a mebibyte.
	storedAtMost = 5000
)

// Store is a ConfigMap with what was released lately. Whoever begins to make links reads what whoever made them before has released.
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
		return nil, fmt.Errorf("read which numbers of links were released: %w", err)
	}
	all := map[types.UID]release{}
	if text := kept.Data[storeKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil, fmt.Errorf("read which numbers of links were released: ConfigMap %s: %w; remove it half a minute after the last link has gone", s.At, err)
		}
	}
	return all, nil
}

func (s *Store) write(ctx context.Context, all map[types.UID]release) error {
	text, err := json.Marshal(youngest(all, storedAtMost))
	if err != nil {
		return fmt.Errorf("write which numbers of links were released: %w", err)
	}
	err = s.Client.Apply(ctx, applycorev1.ConfigMap(s.At.Name, s.At.Namespace).WithData(map[string]string{storeKey: string(text)}), s.Owner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write which numbers of links were released: %w", err)
	}
	return nil
}

// youngest are no more than some of all, those that were released last.
func youngest(all map[types.UID]release, most int) map[types.UID]release {
	if len(all) <= most {
		return all
	}
	byAge := slices.SortedFunc(maps.Keys(all), func(a, b types.UID) int { return all[b].At.Compare(all[a].At) })
	kept := make(map[types.UID]release, most)
	for _, uid := range byAge[:most] {
		kept[uid] = all[uid]
	}
	return kept
}

// Look returns the links that there are, by what the cache has, and those that have gone lately, of which only numbers and addresses are known.
func (l *Ledger) Look(ctx context.Context, cached []v1alpha1.TSNLink) (links, released []v1alpha1.TSNLink, err error) {
	if err := l.load(ctx); err != nil {
		return nil, nil, err
	}
	links = l.look(cached)
	for _, release := range l.released {
		if l.now().Sub(release.At) < ReleasedFor {
			released = append(released, release.link())
		}
	}
	return links, released, nil
}

// load reads once what was released before.
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
			release.At = l.now() // by another machine's clock
			before[uid] = release
		}
	}
	maps.Copy(l.released, before)
	l.loaded = true
	return nil
}

// Release stores what links have that are about to be deleted, and what was found to be gone, so that nobody gives it to others too early. It
// comes before a link is deleted or made.
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

// Frees is when the first number is free that was released lately, 0 if none was.
func (l *Ledger) Frees() time.Duration {
	var first time.Duration
	for _, release := range l.released {
		if left := ReleasedFor - l.now().Sub(release.At); left > 0 && (first == 0 || left < first) {
			first = left
		}
	}
	return first
}
