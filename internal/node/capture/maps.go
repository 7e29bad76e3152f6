// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// openMaps has the open maps of a program by name.
type openMaps map[string]*ebpf.Map

// open opens the maps of the program at an interface. It fails with ErrUnattached if there is no program.
func (h hook) open(interfaceName string) (openMaps, error) {
	filter, err := h.find(interfaceName)
	if err != nil {
		return nil, err
	}
	if filter == nil {
		return nil, fmt.Errorf("%s: %w", interfaceName, ErrUnattached)
	}
	maps, err := openMapsOf(ebpf.ProgramID(filter.Id))
	if err != nil {
		return nil, fmt.Errorf("open the maps of %s at %s: %w", h.Name, interfaceName, err)
	}
	for _, name := range mapsOf[h.Name] {
		if maps[name] == nil {
			maps.close()
			return nil, fmt.Errorf("the program at %s is not ours", interfaceName)
		}
	}
	return maps, nil
}

func openMapsOf(id ebpf.ProgramID) (openMaps, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	ids, known := info.MapIDs()
	if !known {
		return nil, errors.New("the kernel does not say which they are")
	}
	opened := openMaps{}
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // the caller checks for missing maps
		}
		described, err := m.Info()
		if err != nil || opened[described.Name] != nil {
			m.Close()
			continue
		}
		opened[described.Name] = m
	}
	return opened, nil
}

// take removes a map, which the caller then owns.
func (m openMaps) take(name string) *ebpf.Map {
	taken := m[name]
	delete(m, name)
	return taken
}

func (m openMaps) close() {
	for _, opened := range m {
		opened.Close()
	}
}
