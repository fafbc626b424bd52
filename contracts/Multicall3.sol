// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Many calls in one, with the interface of the Multicall3 that public networks have at
/// 0xcA11bde05977b3631167028862bE2a173976CA11, so that the development chain answers like them.
///
/// One difference, in favour of the neighbours of a hostile contract: a call that is allowed to fail gets an even
/// share of the gas that is left (what it does not use goes to those behind it), and an answer above 64 KiB counts
/// as a failure, because copying it would be paid from the others' gas.
contract Multicall3 {
    struct Call {
        address target;
        bytes callData;
    }

    struct Call3 {
        address target;
        bool allowFailure;
        bytes callData;
    }

    struct Call3Value {
        address target;
        bool allowFailure;
        uint256 value;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    uint256 private constant LARGEST_ANSWER = 64 * 1024;

    function aggregate(Call[] calldata calls) public payable returns (uint256 blockNumber, bytes[] memory returnData) {
        blockNumber = block.number;
        returnData = new bytes[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            returnData[i] = mustCall(calls[i].target, 0, calls[i].callData);
        }
    }

    function tryAggregate(bool requireSuccess, Call[] calldata calls) public payable returns (Result[] memory returnData) {
        returnData = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            returnData[i] = one(calls[i].target, !requireSuccess, 0, calls[i].callData, calls.length - i);
        }
    }

    function tryBlockAndAggregate(bool requireSuccess, Call[] calldata calls)
        public
        payable
        returns (uint256 blockNumber, bytes32 blockHash, Result[] memory returnData)
    {
        blockNumber = block.number;
        blockHash = blockhash(block.number);
        returnData = tryAggregate(requireSuccess, calls);
    }

    function blockAndAggregate(Call[] calldata calls)
        public
        payable
        returns (uint256 blockNumber, bytes32 blockHash, Result[] memory returnData)
    {
        return tryBlockAndAggregate(true, calls);
    }

    function aggregate3(Call3[] calldata calls) public payable returns (Result[] memory returnData) {
        returnData = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            returnData[i] = one(calls[i].target, calls[i].allowFailure, 0, calls[i].callData, calls.length - i);
        }
    }

    function aggregate3Value(Call3Value[] calldata calls) public payable returns (Result[] memory returnData) {
        uint256 spent;
        returnData = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            spent += calls[i].value;
            returnData[i] = one(calls[i].target, calls[i].allowFailure, calls[i].value, calls[i].callData, calls.length - i);
        }
        require(msg.value == spent, "Multicall3: value mismatch");
    }

    function getBlockHash(uint256 blockNumber) public view returns (bytes32 blockHash) {
        return blockhash(blockNumber);
    }

    function getBlockNumber() public view returns (uint256 blockNumber) {
        return block.number;
    }

    function getCurrentBlockCoinbase() public view returns (address coinbase) {
        return block.coinbase;
    }

    function getCurrentBlockDifficulty() public view returns (uint256 difficulty) {
        return block.prevrandao;
    }

    function getCurrentBlockGasLimit() public view returns (uint256 gaslimit) {
        return block.gaslimit;
    }

    function getCurrentBlockTimestamp() public view returns (uint256 timestamp) {
        return block.timestamp;
    }

    function getEthBalance(address addr) public view returns (uint256 balance) {
        return addr.balance;
    }

    function getLastBlockHash() public view returns (bytes32 blockHash) {
        return blockhash(block.number - 1);
    }

    function getBasefee() public view returns (uint256 basefee) {
        return block.basefee;
    }

    function getChainId() public view returns (uint256 chainid) {
        return block.chainid;
    }

    function one(address target, bool allowFailure, uint256 value, bytes calldata data, uint256 callsLeft)
        private
        returns (Result memory)
    {
        if (!allowFailure) return Result(true, mustCall(target, value, data));
        return tryCall(target, value, data, gasleft() / callsLeft);
    }

    function mustCall(address target, uint256 value, bytes calldata data) private returns (bytes memory returnData) {
        bool success;
        (success, returnData) = target.call{value: value}(data);
        require(success, "Multicall3: call failed");
    }

    function tryCall(address target, uint256 value, bytes calldata data, uint256 gasShare)
        private
        returns (Result memory result)
    {
        bytes memory input = data;
        bytes memory output;
        bool success;
        uint256 largest = LARGEST_ANSWER;
        // The compiler's own `call` would copy the whole answer before its length could be looked at.
        assembly ("memory-safe") {
            success := call(gasShare, target, value, add(input, 32), mload(input), 0, 0)
            let size := returndatasize()
            output := mload(0x40)
            if gt(size, largest) {
                success := 0
                size := 0
            }
            mstore(output, size)
            returndatacopy(add(output, 32), 0, size)
            mstore(0x40, and(add(add(output, size), 63), not(31)))
        }
        return Result(success, output);
    }
}
