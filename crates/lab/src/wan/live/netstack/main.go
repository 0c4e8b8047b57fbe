// gVisor's netstack at an end of the link of `cargo lab wan`: each packet of descriptor 0 is a frame.
//
//	send ADDRESS REMOTE PORT WINDOW      one flow without end
//	receive ADDRESS PORT FLOWS WINDOW    a flow from each port, counted
//
// It writes the bytes that each flow has received to its output, in a line each tenth of a second, and ends with its link.
// Built at run time (see programs.rs).
package main

import (
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const piece = 1 << 16

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func done(err tcpip.Error) {
	if err != nil {
		check(errors.New(err.String()))
	}
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	check(err)
	return n
}

func address(word string) tcpip.Address {
	addr, err := netip.ParseAddr(word)
	check(err)
	return tcpip.AddrFrom4(addr.As4())
}

// attached is a stack whose only interface is the link.
func attached(own tcpip.Address, window int) *stack.Stack {
	mac := append([]byte{2, 0}, own.AsSlice()...)
	link, err := fdbased.New(&fdbased.Options{
		FDs:                []int{0},
		MTU:                1500,
		EthernetHeader:     true,
		Address:            tcpip.LinkAddress(mac),
		PacketDispatchMode: fdbased.Readv,
		ClosedFunc:         func(tcpip.Error) { os.Exit(0) },
	})
	check(err)
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	sack := tcpip.TCPSACKEnabled(true)
	cubic := tcpip.CongestionControlOption("cubic")
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: window, Max: window}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: window, Max: window}
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &cubic, &moderate, &send, &receive} {
		done(s.SetTransportProtocolOption(tcp.ProtocolNumber, option))
	}
	done(s.CreateNIC(1, link))
	prefix := tcpip.AddressWithPrefix{Address: own, PrefixLen: 24}
	addr := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: prefix}
	done(s.AddProtocolAddress(1, addr, stack.AddressProperties{}))
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	return s
}

func send(s *stack.Stack, to tcpip.FullAddress) {
	flow, err := gonet.DialTCP(s, to, ipv4.ProtocolNumber)
	check(err)
	data := make([]byte, piece)
	for {
		_, err := flow.Write(data)
		check(err)
	}
}

func receive(s *stack.Stack, at tcpip.FullAddress, count *atomic.Uint64) {
	listener, err := gonet.ListenTCP(s, at, ipv4.ProtocolNumber)
	check(err)
	flow, err := listener.Accept()
	check(err)
	data := make([]byte, piece)
	for {
		n, err := flow.Read(data)
		check(err)
		count.Add(uint64(n))
	}
}

func main() {
	if len(os.Args) != 6 {
		log.Fatal("send ADDRESS REMOTE PORT WINDOW, or receive ADDRESS PORT FLOWS WINDOW")
	}
	own := address(os.Args[2])
	s := attached(own, number(os.Args[5]))
	if os.Args[1] == "send" {
		send(s, tcpip.FullAddress{NIC: 1, Addr: address(os.Args[3]), Port: uint16(number(os.Args[4]))})
	}
	received := make([]atomic.Uint64, number(os.Args[4]))
	for flow := range received {
		at := tcpip.FullAddress{NIC: 1, Addr: own, Port: uint16(number(os.Args[3]) + flow)}
		go receive(s, at, &received[flow])
	}
	for range time.Tick(100 * time.Millisecond) {
		for flow := range received {
			fmt.Print(received[flow].Load(), " ")
		}
		fmt.Println()
	}
}
