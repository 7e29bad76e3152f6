// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/linkprobe"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// manyLinks returns the number of links of BenchmarkManyLinks between two nodes (KTSN_LINKS).
const manyLinks = 1000

// BenchmarkManyLinks plugs many links between two nodes, probes all of them from their clients, and reports the cost at
// rest.
func BenchmarkManyLinks(b *testing.B) {
	count := manyLinks
	if text := os.Getenv("KTSN_LINKS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		must(b, err)
	}
	for range b.N {
		lab := newLab(b)
		lab.a.startDaemon(b)
		lab.b.startDaemon(b)
		before := memoryOfKernel(b)
		endpoint := lab.b.newPod(b)
		var clients []*pod
		var plans [2][]*attachment.LinkPlan
		for i := range count {
			if i%100 == 0 {
				clients = append(clients, lab.a.newPod(b))
			}
			client := clients[len(clients)-1]
			plans[0] = append(plans[0], planOf(b, i, client, lab.b, true))
			plans[1] = append(plans[1], planOf(b, i, endpoint, lab.a, false))
		}
		began := time.Now()
		var took [2][]time.Duration
		var both sync.WaitGroup
		for at, n := range []*node{lab.a, lab.b} {
			both.Go(func() {
				options := &attachment.LinkOptions{StateDir: filepath.Join(n.dir, "state"), ControlSocket: n.control(), Patience: patience}
				_ = n.Do(func() error {
					for _, plan := range plans[at] {
						begin := time.Now()
						if err := attachment.PlugLink(context.Background(), options, plan); err != nil {
							b.Errorf("plug %s: %v", plan.Interface, err)
							return nil
						}
						took[at] = append(took[at], time.Since(begin))
					}
					return nil
				})
			})
		}
		both.Wait()
		b.ReportMetric(time.Since(began).Seconds(), "s-setup")
		for at := range took {
			all := took[at]
			if len(all) < count {
				b.FailNow()
			}
			b.Logf("node %d: the first 10 links %v each, the last 10 %v each", at, mean(all[:10]), mean(all[len(all)-10:]))
		}
		b.ReportMetric(float64(memoryOfKernel(b)-before)/float64(2*count), "KiB-kernel/end")
		b.ReportMetric(float64(lab.a.residentKiB(b)), "KiB-ktsnd")
		probeAtRest(b, plans[0])
		cpu := lab.a.processorOfDaemon(b)
		time.Sleep(5 * time.Second)
		b.ReportMetric((lab.a.processorOfDaemon(b)-cpu).Seconds()/5*100, "%cpu-ktsnd")
		begin := time.Now()
		round := &attachment.GuardRound{StateDir: filepath.Join(lab.a.dir, "state")}
		_ = lab.a.Do(func() error { _, err := round.Run(); return err })
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-guard")
		begin = time.Now()
		_ = lab.a.Do(func() error { _, err := overlay.LinkVNIs(filepath.Join(lab.a.dir, "state")); return err })
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms-records")
		begin = time.Now()
		unplugAll(b, lab, plans)
		b.ReportMetric(time.Since(begin).Seconds(), "s-removal")
	}
}

func planOf(b *testing.B, number int, p *pod, other *node, client bool) *attachment.LinkPlan {
	b.Helper()
	clientMAC, endpointMAC := attachment.LinkMACs(uint32(linkVNI + number))
	ends := []string{fmt.Sprintf("10.201.%d.%d/31", number/128, 2*(number%128)), fmt.Sprintf("10.201.%d.%d/31", number/128, 2*(number%128)+1)}
	plan := &attachment.LinkPlan{
		Sandbox: attachment.Sandbox{ContainerID: p.id, Identity: p.uid, Netns: p.Path()}, Interface: fmt.Sprintf("l%d", number),
		VNI: uint32(linkVNI + number), MTU: 1450,
	}
	plan.Link = attachment.Link{MAC: clientMAC.String(), Peer: attachment.LinkPeer{MAC: endpointMAC.String(), Node: other.address}}
	if !client {
		slices.Reverse(ends)
		plan.Link.MAC, plan.Link.Peer.MAC = plan.Link.Peer.MAC, plan.Link.MAC
	}
	plan.Link.Addresses, plan.Link.Peer.Addresses = prefixesOf(ends[:1]), addressesOf(ends[1:])
	return plan
}

// probeAtRest waits until all links are up and reports the cost of the probes.
func probeAtRest(b *testing.B, plans []*attachment.LinkPlan) {
	b.Helper()
	prober := &linkprobe.Prober{Changed: func(string) {}, Log: quiet()}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var run sync.WaitGroup
	defer run.Wait()
	run.Go(func() { _ = prober.Run(ctx) })
	defer stop()
	began := time.Now()
	for _, plan := range plans {
		prober.Watch(plan.Interface, &linkprobe.Target{
			Netns: plan.Netns, Interface: plan.Interface, Local: plan.Link.Addresses[0].Addr(), Peer: plan.Link.Peer.Addresses[0], MTU: plan.MTU,
		})
	}
	up := func() (count int) {
		for _, plan := range plans {
			if finding, _ := prober.Finding(plan.Interface); finding.Up {
				count++
			}
		}
		return count
	}
	testlab.Eventually(b, patience, 50*time.Millisecond, func() error {
		if up() < len(plans) {
			return fmt.Errorf("%d of %d links are up", up(), len(plans))
		}
		return nil
	})
	b.ReportMetric(time.Since(began).Seconds(), "s-up")
	time.Sleep(2 * time.Second)
	const rest = 10 * time.Second
	before := processorOfSelf(b)
	time.Sleep(rest)
	b.ReportMetric((processorOfSelf(b)-before).Seconds()/rest.Seconds()*100, "%cpu-probe")
	if got := up(); got != len(plans) {
		b.Errorf("at rest %d of %d are up", got, len(plans))
	}
}

func unplugAll(b *testing.B, lab *lab, plans [2][]*attachment.LinkPlan) {
	b.Helper()
	var both sync.WaitGroup
	for at, n := range []*node{lab.a, lab.b} {
		both.Go(func() {
			options := &attachment.LinkOptions{StateDir: filepath.Join(n.dir, "state"), ControlSocket: n.control(), Patience: patience}
			err := n.Do(func() error {
				var all []*attachment.Plugged
				for _, plan := range plans[at] {
					all = append(all, &attachment.Plugged{Sandbox: plan.Sandbox, Interface: plan.Interface, VNI: plan.VNI})
				}
				return errors.Join(attachment.UnplugLinks(context.Background(), options, all)...)
			})
			if err != nil {
				b.Errorf("unplug all: %v", err)
			}
		})
	}
	both.Wait()
}

func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, value := range all {
		sum += value
	}
	return sum / time.Duration(len(all))
}

func processorOfSelf(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// memoryOfKernel returns the memory of the machine's kernel in KiB, including that of other users.
func memoryOfKernel(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	must(b, err)
	sum := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if slices.Contains([]string{"Slab:", "Percpu:", "VmallocUsed:", "KernelStack:"}, fields[0]) {
			value, err := strconv.Atoi(fields[1])
			must(b, err)
			sum += value
		}
	}
	return sum
}

// residentKiB returns the resident memory of the node's ktsnd.
func (n *node) residentKiB(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.daemon.PID()))
	must(b, err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			value, err := strconv.Atoi(fields[1])
			must(b, err)
			return value
		}
	}
	return 0
}

// processorOfDaemon returns the CPU time of the node's ktsnd.
func (n *node) processorOfDaemon(b *testing.B) time.Duration {
	b.Helper()
	used, err := process.CPUTime(n.daemon.PID())
	must(b, err)
	return used
}
