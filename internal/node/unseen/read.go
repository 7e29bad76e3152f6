// SPDX-License-Identifier: Apache-2.0

package unseen

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/containernetworking/plugins/pkg/ns"
)

// ErrGone tells that there is no such interface, or network namespace.
var ErrGone = errors.New("it is gone")

// Count is what an interface did not let out.
type Count struct {
	// Guarded tells that the program is there; all else is zero where it is not.
	Guarded bool `json:"guarded"`
	// Datagrams is the sum; that of Programs can be less, because not every sender can be known.
	Datagrams uint64    `json:"datagrams"`
	Programs  []Program `json:"programs,omitempty"`
}

// Program is one that sent such datagrams.
type Program struct {
	// Name is what the kernel calls the process, at most 15 bytes, which its author chose.
	Name      string `json:"name"`
	Datagrams uint64 `json:"datagrams"`
	// PID is of the process that sent last, as the node numbers it.
	PID uint32 `json:"pid"`
}

// At is the count of an interface of a pod, as `ktsn node unseen` shows it.
type At struct {
	Identity  string `json:"identity"`
	Interface string `json:"interface"`
	Count
	// Failure says why it could not be read.
	Failure string `json:"failure,omitempty"`
}

// ReadIn reads the count of an interface in another network namespace, which is given by its path.
func ReadIn(netns, interfaceName string) (count Count, err error) {
	errEnter := ns.WithNetNSPath(netns, func(ns.NetNS) error {
		count, err = Read(interfaceName)
		return nil
	})
	if errors.As(errEnter, &ns.NSPathNotExistErr{}) {
		return count, fmt.Errorf("%w: there is no network namespace %s", ErrGone, netns)
	}
	if errEnter != nil {
		return count, fmt.Errorf("enter the network namespace: %w", errEnter)
	}
	return count, err
}

// Read reads the count of an interface.
func Read(interfaceName string) (Count, error) {
	filter, err := find(interfaceName)
	if err != nil || filter == nil {
		return Count{}, err
	}
	count, err := readMaps(ebpf.ProgramID(filter.Id))
	if err != nil {
		return Count{}, fmt.Errorf("read what %s did not let out: %w", interfaceName, err)
	}
	return count, nil
}

// readMaps reads the maps of a program, which are found by it.
func readMaps(id ebpf.ProgramID) (Count, error) {
	count := Count{Guarded: true}
	maps, err := mapsOf(id)
	if err != nil {
		return count, err
	}
	defer func() {
		for _, one := range maps {
			one.Close()
		}
	}()
	if maps[sumMap] == nil || maps[programsMap] == nil {
		return count, errors.New("the filter's program is not ours")
	}
	if err := maps[sumMap].Lookup(uint32(0), &count.Datagrams); err != nil {
		return count, err
	}
	count.Programs, err = readPrograms(maps[programsMap])
	return count, err
}

// mapsOf opens the maps of a program, by name.
func mapsOf(id ebpf.ProgramID) (_ map[string]*ebpf.Map, err error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	ids, _ := info.MapIDs()
	opened := map[string]*ebpf.Map{}
	for _, id := range ids {
		one, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // what is missing, the caller finds
		}
		described, err := one.Info()
		if err != nil || opened[described.Name] != nil {
			one.Close()
			continue
		}
		opened[described.Name] = one
	}
	return opened, nil
}

// readPrograms lists the programs, the one that sent most first.
func readPrograms(from *ebpf.Map) ([]Program, error) {
	var programs []Program
	var name [16]byte
	var sent struct {
		Datagrams     uint64
		PID, Reserved uint32
	}
	all := from.Iterate()
	for all.Next(&name, &sent) {
		text, _, _ := bytes.Cut(name[:], []byte{0})
		programs = append(programs, Program{Name: string(text), Datagrams: sent.Datagrams, PID: sent.PID})
	}
	slices.SortFunc(programs, func(a, b Program) int {
		return cmp.Or(cmp.Compare(b.Datagrams, a.Datagrams), cmp.Compare(a.Name, b.Name))
	})
	return programs, all.Err()
}
