// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// What an operation may meet, for the tests of Delegate and Dispatcher: it notes who calls, and misbehaves in every way.
contract GasTarget {
    event Seen(address sender, address origin, uint256 value);

    uint256 public count;

    receive() external payable {}

    function ping() external payable {
        count++;
        emit Seen(msg.sender, tx.origin, msg.value);
    }

    function failWith(bytes calldata reason) external pure {
        bytes memory data = reason;
        assembly ("memory-safe") {
            revert(add(data, 32), mload(data))
        }
    }

    /// Returns so many bytes, as an answer or as a reason.
    function bomb(uint256 size, bool fails) external pure {
        assembly ("memory-safe") {
            if fails { revert(0x80, size) }
            return(0x80, size)
        }
    }

    function burn() external view {
        while (gasleft() > 0) {}
    }

    /// Calls on, and notes how that went: what it returned, or failed with.
    function forward(address to, bytes calldata data) external payable returns (bool succeeded, bytes memory answer) {
        (succeeded, answer) = to.call{value: msg.value}(data);
        emit Forwarded(succeeded, answer);
    }

    event Forwarded(bool succeeded, bytes answer);

    /// As `transfer` of Solidity does.
    function payWithLittleGas(address to) external payable {
        (bool succeeded,) = to.call{value: msg.value, gas: 2300}("");
        require(succeeded, "not accepted");
    }

    function onlyOrigin() external {
        require(msg.sender == tx.origin, "no contracts");
        count++;
    }

    /// As Permit2's SignatureVerification does: whoever has code is asked (ERC-1271).
    function verify(address owner, bytes32 hash, bytes calldata signature) external view returns (bool) {
        if (owner.code.length == 0) {
            (bytes32 r, bytes32 s) = abi.decode(signature, (bytes32, bytes32));
            return ecrecover(hash, uint8(signature[64]), r, s) == owner;
        }
        return Signed(owner).isValidSignature(hash, signature) == Signed.isValidSignature.selector;
    }
}

interface Signed {
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4);
}
