// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
)

// ErrNoHub means that a cluster is not the hub of a federation.
var ErrNoHub = errors.New("it is no hub; `ktsn-cluster hub up` makes one")

// OpenHub opens the hub of a federation by name.
func OpenHub(name, dir string) (*Cluster, error) {
	c, err := Open(name, dir)
	if err == nil && !c.Hub {
		err = fmt.Errorf("cluster %s: %w", name, ErrNoHub)
	}
	return c, err
}

// sitesFile lists the sites on a hub's WAN.
func (c *Cluster) sitesFile() string { return filepath.Join(c.Dir, "wan.json") }

// Sites returns the sites on the hub's WAN, the hub included. A cluster that was taken down stays in the list until
// another takes its place.
func (c *Cluster) Sites() ([]network.Site, error) {
	text, err := os.ReadFile(c.sitesFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var sites []network.Site
	if err == nil {
		err = json.Unmarshal(text, &sites)
	}
	if err != nil {
		return nil, fmt.Errorf("read the sites on the WAN of %s: %w", c.Name, err)
	}
	return sites, nil
}

func (c *Cluster) saveSites(sites []network.Site) error {
	text, err := json.MarshalIndent(sites, "", "  ")
	if err == nil {
		err = os.WriteFile(c.sitesFile()+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(c.sitesFile()+".new", c.sitesFile())
	}
	if err != nil {
		return fmt.Errorf("save the sites on the WAN of %s: %w", c.Name, err)
	}
	return nil
}

// Site returns a cluster's place on the hub's WAN.
func (c *Cluster) Site(name string) (network.Site, error) {
	sites, err := c.Sites()
	if err != nil {
		return network.Site{}, err
	}
	at := slices.IndexFunc(sites, func(site network.Site) bool { return site.Name == name })
	if at < 0 {
		return network.Site{}, c.notConnected(name)
	}
	return sites[at], nil
}

func (c *Cluster) notConnected(name string) error {
	return fmt.Errorf("cluster %s is not on the WAN of %s; `ktsn-cluster wan connect` puts it there", name, c.Name)
}

// Connect connects a cluster to the hub's WAN. It does nothing if the cluster is connected.
func (c *Cluster) Connect(ctx context.Context, member *Cluster) error {
	unlock, err := lock(c.Name, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.connect(ctx, member); err != nil {
		return fmt.Errorf("connect cluster %s: %w", member.Name, err)
	}
	return nil
}

// connect is Connect, with the hub's lock held. A cluster of that name keeps its place.
func (c *Cluster) connect(ctx context.Context, member *Cluster) error {
	sites, err := c.Sites()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(sites, func(site network.Site) bool { return site.Name == member.Name })
	if at >= 0 && sites[at].Subnet == member.Subnet && network.Connected(ctx, c.Plan, sites[at]) {
		return nil
	}
	if at < 0 {
		at = len(sites)
		sites = append(sites, network.Site{})
	}
	if sites[at], err = network.NewSite(member.Plan, at+1); err != nil {
		return err
	}
	if err := c.saveSites(sites); err != nil {
		return err
	}
	if err := c.setDelay(ctx, sites[at], 0); err != nil {
		return err
	}
	if err := network.ConnectSite(ctx, c.Plan, member.Plan, sites[at]); err != nil {
		return err
	}
	return network.Route(ctx, sites)
}

// CutSite pulls the cable between a cluster and the WAN; MendSite plugs it in again.
func (c *Cluster) CutSite(ctx context.Context, name string) error { return c.setSite(ctx, name, false) }

// MendSite reconnects a cluster that was cut off.
func (c *Cluster) MendSite(ctx context.Context, name string) error { return c.setSite(ctx, name, true) }

func (c *Cluster) setSite(ctx context.Context, name string, connected bool) error {
	site, err := c.Site(name)
	if err != nil {
		return err
	}
	return network.SetSiteConnected(ctx, c.Plan, site, connected)
}
