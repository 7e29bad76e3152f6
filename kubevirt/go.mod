module github.com/kubernetsn/kubernetsn/kubevirt

go 1.26.0

toolchain go1.26.8

require (
	github.com/beevik/etree v1.8.1
	github.com/kubernetsn/kubernetsn v0.0.0
	google.golang.org/grpc v1.85.0
	kubevirt.io/kubevirt v1.7.0
)

require (
	github.com/cilium/ebpf v0.22.0 // indirect
	github.com/containernetworking/plugins v1.9.1 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/kubernetsn/kubernetsn => ../

replace (
	github.com/openshift/api => github.com/openshift/api v0.0.0-20210105115604-44119421ec6b
	github.com/openshift/client-go => github.com/openshift/client-go v0.0.0-20210112165513-ebc401615f47
	k8s.io/client-go => k8s.io/client-go v0.33.5
	k8s.io/kube-openapi => k8s.io/kube-openapi v0.0.0-20250318190949-c8a335a9a2ff
	k8s.io/kubectl => k8s.io/kubectl v0.33.5
	kubevirt.io/api => kubevirt.io/api v1.7.0
	kubevirt.io/client-go => kubevirt.io/client-go v1.7.0
)
