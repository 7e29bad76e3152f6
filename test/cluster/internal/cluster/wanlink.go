// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/wanlink"
)

// The minimum MTU of IPv4 hosts, and the MTU of the cables.
const (
	minMTU = 576
	maxMTU = 1500
)

// SetMTU sets the MTU of the WAN between a cluster and the others.
func (c *Cluster) SetMTU(ctx context.Context, name string, mtu int) error {
	if mtu < minMTU || mtu > maxMTU {
		return fmt.Errorf("an MTU of %d is not possible; give one from %d to %d", mtu, minMTU, maxMTU)
	}
	unlock, err := lock(c.Name, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	sites, err := c.Sites()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(sites, func(site network.Site) bool { return site.Name == name })
	if at < 0 {
		return c.notConnected(name)
	}
	sites[at].MTU = mtu
	if err := c.saveSites(sites); err != nil {
		return err
	}
	return network.Route(ctx, sites)
}

// SetDelay delays packets between a cluster and the WAN, in each direction; 0 removes the delay.
func (c *Cluster) SetDelay(ctx context.Context, name string, delay time.Duration) error {
	if delay < 0 {
		return fmt.Errorf("a delay of %v is not possible; give 0 or more", delay)
	}
	unlock, err := lock(c.Name, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	site, err := c.Site(name)
	if err != nil {
		return err
	}
	if err := c.setDelay(ctx, site, delay); err != nil {
		return fmt.Errorf("delay packets of cluster %s: %w", name, err)
	}
	return nil
}

// delayCgroup holds the program that delays a site's packets, so that it can be found and ended.
func (c *Cluster) delayCgroup(site network.Site) string {
	return filepath.Join(c.Cgroup(), "delay-"+site.ID)
}

// setDelay is SetDelay, with the hub's lock held.
func (c *Cluster) setDelay(ctx context.Context, site network.Site, delay time.Duration) error {
	if err := cgroups.Remove(ctx, c.delayCgroup(site)); err != nil {
		return err
	}
	if delay == 0 {
		return network.CloseSiteLink(ctx, c.Plan, site)
	}
	if err := network.OpenSiteLink(ctx, c.Plan, site); err != nil {
		return err
	}
	return c.startDelay(ctx, site, delay)
}

// startDelay starts another process of this program that runs CarryDelayed, and waits until it is ready.
func (c *Cluster) startDelay(ctx context.Context, site network.Site, delay time.Duration) error {
	self, err := delayProgram()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.Dir, "delay-"+site.ID+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.CommandContext(context.WithoutCancel(ctx), self, "--name", c.Name, "--dir", filepath.Dir(c.Dir),
		"wan", "carry", site.Name, "--delay", delay.String())
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n') // ends with the program
	if strings.TrimSpace(line) == carrying {
		return command.Process.Release()
	}
	err = command.Wait()
	why, _ := os.ReadFile(log.Name()) // better an error without a reason than none
	return fmt.Errorf("%s wan carry: %w: %s", self, err, strings.TrimSpace(string(why)))
}

// delayProgram returns the path of this program, or the one that tests set.
func delayProgram() (string, error) {
	if program := os.Getenv("KTSN_CLUSTER_PROGRAM"); program != "" {
		return program, nil
	}
	return os.Executable()
}

const carrying = "carrying"

// CarryDelayed delays packets of a cluster until it is killed. It prints a line once it has begun.
func (c *Cluster) CarryDelayed(name string, delay time.Duration, stdout io.Writer) error {
	site, err := c.Site(name)
	if err != nil {
		return err
	}
	if err := cgroups.Enter(c.delayCgroup(site)); err != nil {
		return err
	}
	port, cable := network.DelayEnds(site)
	err = wanlink.Run(network.Path(c.WAN()), port, cable, delay, func() { fmt.Fprintln(stdout, carrying) })
	return errors.Join(fmt.Errorf("packets of cluster %s are lost", name), err)
}
