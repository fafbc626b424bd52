// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ICalibur} from "./CaliburDispatcher.sol";

/// For tests only: what is used of Calibur 1.0.0 (github.com/Uniswap/calibur), by its interface and its rules, written from those. Its own
/// code is in no registry of packages. Nothing is deployed of this, and nothing about money rests on it: `network deploy-gas` and the start of a server try
/// the contract that is there.
contract CaliburStandIn {
    struct Key {
        uint8 keyType;
        bytes publicKey;
    }

    uint8 private constant SECP256K1 = 2;
    uint256 private constant IS_ADMIN = 1 << 200;
    bytes32 private constant ROOT_KEY = 0;
    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)");
    bytes32 private constant CALL_TYPE = keccak256("Call(address to,uint256 value,bytes data)");
    bytes32 private constant BATCH_TYPE =
        keccak256("BatchedCall(Call[] calls,bool revertOnFailure)Call(address to,uint256 value,bytes data)");
    bytes32 private constant SIGNED_TYPE = keccak256(
        "SignedBatchedCall(BatchedCall batchedCall,uint256 nonce,bytes32 keyHash,address executor,uint256 deadline)BatchedCall(Call[] calls,bool revertOnFailure)Call(address to,uint256 value,bytes data)"
    );
    /// Where the code is, which accounts run as their own.
    address private constant HERE = 0x000000009B1D0aF20D8C6d0A44e162d11F9b8f00;

    mapping(uint192 key => uint256 count) private counts;
    mapping(bytes32 keyHash => bool known) private keys;
    mapping(bytes32 keyHash => uint256 settings) private settingsOf;

    error Unauthorized();
    error InvalidNonce();
    error SignatureExpired();
    error InvalidSignature();
    error CallFailed(bytes reason);

    receive() external payable {}

    /// What receivers of ERC-721 and ERC-1155 answer, as solady's Receiver does.
    fallback() external payable {
        bytes4 selector = msg.sig;
        if (selector != 0x150b7a02 && selector != 0xf23a6e61 && selector != 0xbc197c81) revert Unauthorized();
        assembly {
            mstore(0, selector)
            return(0, 32)
        }
    }

    modifier onlyThis() {
        if (msg.sender != address(this)) revert Unauthorized();
        _;
    }

    /// By the account itself, or a key that it let in.
    function execute(ICalibur.BatchedCall memory batch) public payable {
        bytes32 key = msg.sender == address(this) ? ROOT_KEY : _hashOf(Key(SECP256K1, abi.encode(msg.sender)));
        if (key != ROOT_KEY && settingsOf[key] & IS_ADMIN == 0) revert Unauthorized();
        _process(batch);
    }

    function execute(ICalibur.SignedBatchedCall calldata signed, bytes calldata wrapped) external payable {
        if (signed.executor != address(0) && signed.executor != msg.sender) revert Unauthorized();
        if (signed.deadline != 0 && block.timestamp > signed.deadline) revert SignatureExpired();
        if (counts[uint192(signed.nonce >> 64)]++ != uint64(signed.nonce)) revert InvalidNonce();
        (bytes memory signature,) = abi.decode(wrapped, (bytes, bytes));
        if (signed.keyHash != ROOT_KEY || !_isOwn(_digestOf(signed), signature)) revert InvalidSignature();
        _process(signed.batchedCall);
    }

    function getSeq(uint256 key) external view returns (uint256) {
        return counts[uint192(key)];
    }

    /// Lets another key in.
    function register(Key memory key) external onlyThis {
        keys[_hashOf(key)] = true;
    }

    function update(bytes32 keyHash, uint256 settings) external onlyThis {
        if (!keys[keyHash]) revert Unauthorized();
        settingsOf[keyHash] = settings;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        return signature.length == 65 && _isOwn(digest, signature) ? this.isValidSignature.selector : bytes4(0xffffffff);
    }

    function _process(ICalibur.BatchedCall memory batch) private {
        for (uint256 i = 0; i < batch.calls.length; i++) {
            ICalibur.Call memory call = batch.calls[i];
            address to = call.to == address(0) ? address(this) : call.to;
            (bool done, bytes memory output) = to.call{value: call.value}(call.data);
            if (!done && batch.revertOnFailure) revert CallFailed(output);
        }
    }

    function _hashOf(Key memory key) private pure returns (bytes32) {
        return keccak256(abi.encode(key.keyType, keccak256(key.publicKey)));
    }

    function _digestOf(ICalibur.SignedBatchedCall calldata signed) private view returns (bytes32) {
        ICalibur.Call[] calldata calls = signed.batchedCall.calls;
        bytes32[] memory hashes = new bytes32[](calls.length);
        for (uint256 i = 0; i < calls.length; i++)
            hashes[i] = keccak256(abi.encode(CALL_TYPE, calls[i].to, calls[i].value, keccak256(calls[i].data)));
        bytes32 batch =
            keccak256(abi.encode(BATCH_TYPE, keccak256(abi.encodePacked(hashes)), signed.batchedCall.revertOnFailure));
        bytes32 hash =
            keccak256(abi.encode(SIGNED_TYPE, batch, signed.nonce, signed.keyHash, signed.executor, signed.deadline));
        return keccak256(abi.encodePacked(hex"1901", _domain(), hash));
    }

    function _domain() private view returns (bytes32) {
        return keccak256(
            abi.encode(
                DOMAIN_TYPE, keccak256("Calibur"), keccak256("1.0.0"), block.chainid, address(this), uint256(uint160(HERE))
            )
        );
    }

    function _isOwn(bytes32 digest, bytes memory signature) private view returns (bool) {
        bytes32 r;
        bytes32 s;
        assembly {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
        }
        return signature.length == 65 && ecrecover(digest, uint8(signature[64]), r, s) == address(this);
    }
}
