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

// Open opens the pinned maps. ErrAbsent says that there are none.
func Open(dir string) (*Maps, error) {
	opened := &Maps{}
	for name, into := range map[string]**ebpf.Map{
		peersMap: &opened.peers, endpointsMap: &opened.endpoints, countsMap: &opened.counts,
	} {
		var err error
		if *into, err = openMap(filepath.Join(dir, name), sizes[name]); err != nil {
			opened.Close()
			return nil, err
		}
	}
	return opened, nil
}

// size is what an entry takes, in bytes.
type size struct{ key, value uint32 }

// sizes are those of this release.
var sizes = map[string]size{peersMap: {32, 1}, endpointsMap: {12, 56}, countsMap: {4, 8}}

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
		return nil, fmt.Errorf("%s is of another release; run `ktsn node receive detach`, then attach", path)
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
