// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// Maps are those that the loader fills and reads.
type Maps struct{ peers, endpoints, counts *ebpf.Map }

// ErrOtherRelease tells that what is pinned is another release's. Attach replaces it.
var ErrOtherRelease = errors.New("it is of another release; run `ktsn node receive attach UPLINK`")

// Open opens the maps that the node has pinned in dir. ErrAbsent says that there are none.
func Open(dir string) (*Maps, error) {
	dir, err := OfNode(dir)
	if err != nil {
		return nil, err
	}
	// Asked without bpf(), which not everybody may call.
	if !exists(filepath.Join(dir, peersMap)) {
		return nil, ErrAbsent
	}
	opened := &Maps{}
	for _, one := range []struct {
		name string
		into **ebpf.Map
		want size
	}{
		{peersMap, &opened.peers, size{36, 1}}, {endpointsMap, &opened.endpoints, size{12, 56}}, {countsMap, &opened.counts, size{4, 8}},
	} {
		if *one.into, err = openMap(filepath.Join(dir, one.name), one.want); err != nil {
			opened.Close()
			return nil, err
		}
	}
	return opened, nil
}

// size is what an entry takes, in bytes.
type size struct{ key, value uint32 }

func openMap(path string, want size) (*ebpf.Map, error) {
	opened, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("open the pinned map %s: %w", path, err)
	}
	if have := (size{opened.KeySize(), opened.ValueSize()}); have != want {
		opened.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrOtherRelease)
	}
	return opened, nil
}

// Close closes them; they stay where they are.
func (m *Maps) Close() {
	for _, one := range []*ebpf.Map{m.peers, m.endpoints, m.counts} {
		if one != nil {
			one.Close()
		}
	}
}
