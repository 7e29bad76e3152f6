// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"kubevirt.io/kubevirt/pkg/hooks/info"
	hooks "kubevirt.io/kubevirt/pkg/hooks/v1alpha3"
)

// name is the name that virt-launcher gets.
const name = "ktsn-kubevirt"

// infoServer returns the hooks of this program.
type infoServer struct{}

func (infoServer) Info(context.Context, *info.InfoParams) (*info.InfoResult, error) {
	return &info.InfoResult{
		Name: name, Versions: []string{hooks.Version},
		HookPoints: []*info.HookPoint{{Name: info.OnDefineDomainHookPointName}, {Name: info.ShutdownHookPointName}},
	}, nil
}

// hookServer serves virt-launcher.
type hookServer struct {
	definer *Definer
	// shutdown is called when the machine has ended.
	shutdown func()
	log      *slog.Logger
}

func (s *hookServer) OnDefineDomain(_ context.Context, asked *hooks.OnDefineDomainParams) (*hooks.OnDefineDomainResult, error) {
	text, err := s.definer.Define(asked.GetVmi(), asked.GetDomainXML())
	if err != nil {
		s.log.Error("the virtual machine does not start", "error", err)
		return nil, status.Error(codes.FailedPrecondition, "KuberneTSN: "+err.Error())
	}
	s.log.Info("the domain has its interfaces", "bytes", len(text))
	return &hooks.OnDefineDomainResult{DomainXML: text}, nil
}

// PreCloudInitIso changes nothing. virt-launcher does not call it, because Info does not name it.
func (s *hookServer) PreCloudInitIso(_ context.Context, asked *hooks.PreCloudInitIsoParams) (*hooks.PreCloudInitIsoResult, error) {
	return &hooks.PreCloudInitIsoResult{CloudInitData: asked.GetCloudInitData(), CloudInitNoCloudSource: asked.GetCloudInitNoCloudSource()}, nil
}

func (s *hookServer) Shutdown(context.Context, *hooks.ShutdownParams) (*hooks.ShutdownResult, error) {
	s.log.Info("the virtual machine has ended")
	s.shutdown()
	return &hooks.ShutdownResult{}, nil
}
