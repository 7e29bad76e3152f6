// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// hubPatience bounds how long a hub may take to answer again.
const hubPatience = 2 * time.Minute

// setUpHub returns the set-up of a hub's machine.
func (s *start) setUpHub(credentials *kube.Credentials, _ plan.Node) (node.Setup, error) {
	setup, err := kube.HubSetup(credentials)
	setup.Programs = map[string]string{
		kube.Programs:        s.built.Programs[components.Kubernetes],
		kube.KarmadaPrograms: s.built.Programs[components.Karmada],
	}
	return setup, err
}

// startHub waits for the hub's control plane, installs what Karmada needs, and creates the hub's WAN.
func (s *start) startHub(ctx context.Context) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	config, err := s.Config()
	if err != nil {
		return err
	}
	if err := kube.Wait(ctx, kube.ControlPlaneReady(client)); err != nil {
		return err
	}
	s.say("the control plane is ready")
	applier, err := kube.NewApplier(config)
	if err != nil {
		return err
	}
	karmada := kube.Karmada{
		Manifests: s.built.Programs[components.KarmadaManifests], Server: s.Server(), Authority: config.CAData, Applier: applier,
	}
	if err := karmada.Apply(ctx); err != nil {
		return err
	}
	s.say("Karmada's manifests are applied")
	if err := kube.Wait(ctx, kube.HubServes(client)); err != nil {
		return err
	}
	s.say("Karmada's own API server answers")
	if err := karmada.ApplyWebhook(ctx); err != nil {
		return err
	}
	if err := kube.Wait(ctx, kube.WebhookServes(client)); err != nil {
		return err
	}
	s.say("Karmada is ready")
	if err := network.CreateWAN(ctx, s.Plan); err != nil {
		return err
	}
	return s.connect(ctx, s.Cluster)
}

// AwaitHub waits until all parts of a hub answer.
func (c *Cluster) AwaitHub(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	for _, question := range []func(context.Context) error{kube.ControlPlaneReady(client), kube.HubServes(client), kube.WebhookServes(client)} {
		if err := kube.Wait(ctx, question); err != nil {
			return err
		}
	}
	return nil
}
