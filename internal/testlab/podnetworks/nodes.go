// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	attachments "github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// managed are the two nodes with a ktsnd each, for networks of KuberneTSN.
type managed struct {
	programs, library string
	sides             map[int]*managedSide
}

type managedSide struct {
	ktsnd *ktsnd
	dir   string
	// attached are the pods that are attached to network tsn.
	attached []attachment
	// plugged are the ends of links.
	plugged []attachments.Plugged
}

// managedPrograms are the programs that network tsn and links need.
var managedPrograms = append([]string{"ktsnd", "libktsn.so"}, cniruntime.Plugins...)

// CheckPrograms fails if a program that network tsn and links need is missing.
func CheckPrograms(dir string) error {
	for _, name := range managedPrograms {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s is missing; run `make build`, or name its folder with --bin-dir", filepath.Join(dir, name))
		}
	}
	return nil
}

// manage starts a ktsnd on both nodes, unless they have one.
func (n *Networks) manage(ctx context.Context) error {
	if n.managed != nil {
		return nil
	}
	programs, err := filepath.Abs(n.wanted.Programs)
	if err != nil {
		return err
	}
	if err := CheckPrograms(programs); err != nil {
		return err
	}
	library, err := n.nodes.Preloadable(filepath.Join(programs, "libktsn.so"))
	if err != nil {
		return err
	}
	n.managed = &managed{programs: programs, library: library, sides: map[int]*managedSide{}}
	for _, side := range []int{sideA, sideB} {
		if err := n.startSide(ctx, side); err != nil {
			return err
		}
	}
	return nil
}

func (n *Networks) startSide(ctx context.Context, side int) error {
	s := &managedSide{dir: filepath.Join(n.nodes.Dir, "node-"+strconv.Itoa(side))}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	var err error
	s.ktsnd, err = startKtsnd(ctx, n.node(side), filepath.Join(n.managed.programs, "ktsnd"), n.nodeAddress(side).String(), filepath.Join(s.dir, "control.sock"))
	if err != nil {
		return err
	}
	n.managed.sides[side] = s
	return nil
}

func (s *managedSide) state() string { return filepath.Join(s.dir, "state") }

// socket returns the path at which the applications of a pod reach ktsnd.
func (s *managedSide) socket(pod string) string { return filepath.Join(s.dir, "pods", pod, "app.sock") }

func podID(side, number int) string {
	return fmt.Sprintf("pod-%d-%d", side, number+1)
}

// environment preloads libktsn with the pod's socket.
func (m *managed) environment(side, number int) []string {
	return []string{"LD_PRELOAD=" + m.library, "KTSN_SOCKET=" + m.sides[side].socket(podID(side, number))}
}

func (m *managed) daemons() map[string]*process.Process {
	return map[string]*process.Process{"ktsnd_a": m.sides[sideA].ktsnd.process, "ktsnd_b": m.sides[sideB].ktsnd.process}
}

func (m *managed) close(ctx context.Context, nodeOf func(side int) *topology.Namespace) error {
	var err error
	for number, side := range m.sides {
		err = errors.Join(err, side.detach(ctx), side.unplug(ctx, nodeOf(number)), side.ktsnd.stop())
	}
	return err
}
